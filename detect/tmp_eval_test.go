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
