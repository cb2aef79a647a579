package detect

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

func TestTmpErrors(t *testing.T) {
	f, err := os.Open(os.Getenv("PRECEPT_EVAL") + "/tool_errors.jsonl")
	if err != nil {
		t.Skip()
	}
	out, _ := os.Create("/tmp/pred_errors.jsonl")
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<26)
	for s.Scan() {
		var r struct {
			Source, ID, Label, Text, Kind string
			Index                         int
			Call                          struct{ Name, Arguments string }
		}
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			t.Log(err)
		}
		v := Classify(r.Call.Name, r.Call.Arguments, r.Text, 0)
		b, _ := json.Marshal(map[string]any{"source": r.Source, "id": r.ID, "index": r.Index, "label": v.Outcome})
		fmt.Fprintln(out, string(b))
		if r.Label != string(v.Outcome) {
			txt := r.Text
			if len(txt) > 300 {
				txt = txt[:150] + " ..... " + txt[len(txt)-150:]
			}
			fmt.Printf("== want %s got %s %q kind=%s %s#%d %s %.120s\n   %q\n", r.Label, v.Outcome, v.Rule, r.Kind, r.ID, r.Index, r.Call.Name, r.Call.Arguments, txt)
		}
	}
	out.Close()
}

func TestTmpFeedback(t *testing.T) {
	f, err := os.Open(os.Getenv("PRECEPT_EVAL") + "/feedback.jsonl")
	if err != nil {
		t.Skip()
	}
	out, _ := os.Create("/tmp/pred_feedback.jsonl")
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<26)
	for s.Scan() {
		var r struct {
			Source, ID, Label, Text, Reason string
			Index                           int
			Ambiguous                       bool
			Prev                            string `json:"previous_agent_text"`
		}
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			t.Log(err)
		}
		v := ReadTurn(r.Text, r.Text, r.Prev)
		b, _ := json.Marshal(map[string]any{"source": r.Source, "id": r.ID, "index": r.Index, "label": v.Feeling})
		fmt.Fprintln(out, string(b))
		if r.Label != string(v.Feeling) && !r.Ambiguous {
			fmt.Printf("== want %s got %s %q  %s\n   A %q\n   U %.200q\n", r.Label, v.Feeling, v.Rule, r.Source, r.Prev[max(0, len(r.Prev)-60):], r.Text)
		}
	}
	out.Close()
}

func TestTmpInspect(t *testing.T) {
	f, err := os.Open(os.Getenv("PRECEPT_EVAL") + "/trajectories.jsonl")
	if err != nil {
		t.Skip()
	}
	files := map[string]*os.File{}
	for _, k := range []string{KindResult, KindLoop, KindUser} {
		files[k], _ = os.Create("/tmp/insp_" + k + ".jsonl")
	}
	n := map[string]int{}
	err = Inspect(f, func(x Finding) error {
		n[x.Kind+" "+x.Label]++
		b, _ := json.Marshal(struct {
			Finding
			Rule string
			Tool string
		}{x, x.Rule, x.Tool})
		fmt.Fprintln(files[x.Kind], string(b))
		return nil
	})
	fmt.Println(err, n)
}
