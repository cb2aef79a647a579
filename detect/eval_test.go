package detect_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"precept/detect"
)

// TestEval measures precision and recall on labelled trajectories in the directory PRECEPT_EVAL (tool_errors.jsonl,
// loops.jsonl, feedback.jsonl, trajectories.jsonl). These files are not part of the project.
func TestEval(t *testing.T) {
	dir := os.Getenv("PRECEPT_EVAL")
	if dir == "" {
		t.Skip("PRECEPT_EVAL is not set: no labelled trajectories to measure on")
	}
	t.Run("tool errors", func(t *testing.T) { evalErrors(t, dir) })
	t.Run("loops", func(t *testing.T) { evalLoops(t, dir) })
	t.Run("feedback", func(t *testing.T) { evalFeedback(t, dir) })
}

type labelledRow struct {
	Source, ID, Label, Text, Stratum string
	Index                            int
	Ambiguous                        bool
	User                             string
	Call                             struct{ Name, Arguments string }
	Previous                         string `json:"previous_agent_text"`
	Steps                            []int  `json:"step_indices"`
}

func readRows(t *testing.T, dir, file string) []labelledRow {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, file)) //nolint:gosec // PRECEPT_EVAL names the directory
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // the file was only read
	var rows []labelledRow
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<26)
	for s.Scan() {
		var r labelledRow
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	if len(rows) == 0 || s.Err() != nil {
		t.Fatalf("%s: got %d rows, err = %v, want at least one row and no error", file, len(rows), s.Err())
	}
	return rows
}

type confusionMatrix struct{ tp, fp, fn, tn int }

func (t *confusionMatrix) add(truth, guess bool) {
	switch {
	case truth && guess:
		t.tp++
	case guess:
		t.fp++
	case truth:
		t.fn++
	default:
		t.tn++
	}
}

func (t *confusionMatrix) precision() float64 { return float64(t.tp) / float64(max(1, t.tp+t.fp)) }
func (t *confusionMatrix) recall() float64    { return float64(t.tp) / float64(max(1, t.tp+t.fn)) }

func evalErrors(t *testing.T, dir string) {
	t.Helper()
	var c confusionMatrix
	for _, r := range readRows(t, dir, "tool_errors.jsonl") {
		if r.Label == "ambiguous" {
			continue
		}
		v := detect.Classify(r.Call.Name, r.Call.Arguments, r.Text, 0)
		c.add(r.Label == "error", v.Outcome == detect.Error)
		if (r.Label == "error") != (v.Outcome == detect.Error) {
			t.Logf("%s %s %d: want %s, got %s (%s): %.80q", r.Source, r.ID, r.Index, r.Label, v.Outcome, v.Rule, r.Text)
		}
	}
	t.Logf("tool errors: precision %.3f, recall %.3f, %+v", c.precision(), c.recall(), c)
	if c.precision() < .97 || c.recall() < .93 {
		t.Errorf("tool errors: precision %.3f, recall %.3f, want at least .97 and .93", c.precision(), c.recall())
	}
}

func evalLoops(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "trajectories.jsonl")) //nolint:gosec // PRECEPT_EVAL names the directory
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // the file was only read
	type resultKey struct {
		source, id string
		index      int
	}
	rules, inspected := map[resultKey]string{}, map[[2]string]bool{}
	results := 0
	err = detect.Inspect(f, func(x detect.Finding) error {
		inspected[[2]string{x.Source, x.ID}] = true
		switch x.Kind {
		case detect.KindLoop:
			rules[resultKey{x.Source, x.ID, x.Index}] = x.Rule
		case detect.KindResult:
			results++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var c confusionMatrix
	for _, r := range readRows(t, dir, "loops.jsonl") {
		if r.Label == "borderline" || !inspected[[2]string{r.Source, r.ID}] {
			continue
		}
		rule := ""
		for _, i := range r.Steps[1:] {
			if finding, ok := rules[resultKey{r.Source, r.ID, i}]; ok {
				rule = finding
			}
		}
		c.add(r.Label == "true_loop", rule != "")
		if (r.Label == "true_loop") != (rule != "") {
			t.Logf("%s %s %v: %s, rule %q", r.Source, r.ID, r.Steps, r.Label, rule)
		}
	}
	t.Logf("loops: precision %.3f, recall %.3f, %+v; %d loops in %d results", c.precision(), c.recall(), c, len(rules), results)
	if c.precision() < .97 || c.recall() < .85 {
		t.Errorf("loops: precision %.3f, recall %.3f, want at least .97 and .85", c.precision(), c.recall())
	}
}

func evalFeedback(t *testing.T, dir string) {
	t.Helper()
	type scores struct{ negative, positive confusionMatrix }
	byUser := map[string]*scores{}
	for _, r := range readRows(t, dir, "feedback.jsonl") {
		if r.Ambiguous {
			continue
		}
		s := byUser[r.User]
		if s == nil {
			s = &scores{}
			byUser[r.User] = s
		}
		got := detect.ClassifyTurn(r.Text, r.Text, r.Previous).Feeling
		s.negative.add(r.Label == "correction" || r.Label == "rejection", got == detect.Correction || got == detect.Rejection)
		s.positive.add(r.Label == "approval" || r.Label == "thanks", got == detect.Approval || got == detect.Thanks)
	}
	for user, s := range byUser {
		t.Logf("%s: negative: precision %.3f, recall %.3f; positive: precision %.3f, recall %.3f", user, s.negative.precision(), s.negative.recall(), s.positive.precision(), s.positive.recall())
		if s.negative.precision() < .75 || s.negative.recall() < .5 {
			t.Errorf("%s: negative turns: precision %.3f, recall %.3f, want at least .75 and .5", user, s.negative.precision(), s.negative.recall())
		}
	}
}
