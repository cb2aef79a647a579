//go:build !race

package learning

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"precept/bandit/report"
	"precept/inject/bank/banktest"
	"precept/test/harness"
)

// sendSessions sends the sessions first to end-1. Only the lesson look-at-apples has an effect.
func sendSessions(t *testing.T, baseURL string, first, end int) {
	t.Helper()
	post := func(path, session string, body any) (string, error) {
		b, err := json.Marshal(body)
		if err != nil {
			return "", err
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, baseURL+path, strings.NewReader(string(b)))
		if err != nil {
			return "", err
		}
		req.Header.Set("Precept-Session", session)
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			return "", err
		}
		defer res.Body.Close() //nolint:errcheck // only read
		answer, err := io.ReadAll(res.Body)
		if err == nil && res.StatusCode/100 != 2 {
			err = fmt.Errorf("%s: %s %s", path, res.Status, answer)
		}
		return string(answer), err
	}
	sendSession := func(n int) error {
		name, text := fmt.Sprintf("season-%d", n), "do the work"
		for k, word := range []string{"apples", "pears", "plums"} {
			if (n+k)%4 > 0 {
				text += " with " + word
			}
		}
		messages := []map[string]any{{"role": "user", "content": text}}
		body := map[string]any{"model": []string{"m-1", "m-2", "m-2"}[n%3], "messages": messages}
		answer, err := post("/v1/chat/completions", name, body)
		score := float64(n*7%11) / 20 // 0 to 0.5, not related to the lessons
		if n%4 == 0 && err == nil {
			body["messages"] = append(messages,
				map[string]any{"role": "assistant", "content": nil, "tool_calls": []map[string]any{{"id": "call-1", "type": "function", "function": map[string]string{"name": "bash", "arguments": `{"command":"cat notes.txt"}`}}}},
				map[string]any{"role": "tool", "tool_call_id": "call-1", "content": "cat: notes.txt: No such file or directory"})
			_, err = post("/v1/chat/completions", name, body)
			score = 0
		}
		if err != nil || n%10 == 0 {
			return err
		}
		if strings.Contains(answer, "saw look-at-apples") {
			score += 0.4
		}
		_, err = post("/v1/feedback", name, map[string]any{"id": name, "session_id": name, "source": "user", "type": "score", "score": score})
		return err
	}
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			for n := first + w; n < end; n += 4 {
				if err := sendSession(n); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	workers.Wait()
}

// formatOptional formats a number for a failure message.
func formatOptional(x *float64) string {
	if x == nil {
		return "none"
	}
	return fmt.Sprint(*x)
}

// A script that shares no code with precept recomputes the report.
func TestReportCanBeRecomputedFromExport(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("python3 is not installed, but CI needs it")
		}
		t.Skip("needs python3")
	}
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		answer := "done"
		if strings.Contains(string(b), "[look-at-apples]") {
			answer = "saw look-at-apples"
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":"chatcmpl-1","object":"chat.completion","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":%q}}],"usage":{"prompt_tokens":%d,"completion_tokens":7,"total_tokens":9}}`, answer, len(b))
	}))
	defer model.Close()
	dir, lessons := t.TempDir(), t.TempDir()
	for _, fruit := range []string{"apples", "pears", "plums"} {
		banktest.WriteLesson(t, lessons, "look-at-"+fruit, fruit)
	}
	p := harness.Launch(t, dir, []string{"PRECEPT_ADMIN_TOKEN=season"}, "--upstream", model.URL+"/v1", "--lessons", lessons,
		"--reward-close-after", "1s", "--limits-lookup-timeout", "10s", "--bandit-epsilon", "0.3", "--bandit-control", "0.15").WaitUntilReady(dir)
	runPrecept := func(args ...string) []byte {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "precept", append(args, "--data-dir", dir)...)
		cmd.Env = append(os.Environ(), "OPENAI_BASE_URL=", "PRECEPT_ADMIN_TOKEN=season")
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("precept %v: %v\n%s", args, err, stderr.String())
		}
		return out
	}
	var r report.Report
	runPrecept("lessons", "trial", "look-at-apples", "--picks", "120", "--epsilon", "0.4", "--yes", "--lessons", lessons)
	p.Eventually("the trial to begin", func() bool {
		if err := json.Unmarshal(runPrecept("report", "--json", "--lessons", lessons), &r); err != nil {
			t.Fatal(err)
		}
		return len(r.Lessons) > 0 && r.Lessons[0].Trial == "running" && r.PlannedTrials.Planned == 1
	})
	sessionsClosed := func(sessions int64) func() bool {
		return func() bool {
			if err := json.Unmarshal(runPrecept("report", "--json", "--lessons", lessons), &r); err != nil {
				t.Fatal(err)
			}
			return r.Reporting.AssignedTreated+r.Reporting.AssignedControl == sessions && r.Global.NTreated+r.Global.NControl == sessions*9/10
		}
	}
	const first, sessions = 150, 400
	sendSessions(t, p.DataURL, 0, first) // AllSessions, the estimate that also uses unrewarded sessions, needs earlier rewards
	p.Eventually("the first sessions to be closed", sessionsClosed(first))
	sendSessions(t, p.DataURL, first, sessions)
	p.Eventually("all sessions to be closed", sessionsClosed(sessions))
	evaluation := r.Lessons[0].PlannedTrials[0]
	if !evaluation.Evaluated || evaluation.NInjected+evaluation.NWithheld != 120 || evaluation.Effect == nil || r.Lessons[0].Trial != "ended" || r.Lessons[0].AfterTrial == "" || r.Lessons[0].Epsilon == 0.4 {
		t.Fatalf("planned evaluation %+v for lesson %+v: want 120 picks, an effect, and an ended trial with an epsilon other than 0.4", evaluation, r.Lessons[0])
	}
	if evaluation.Verdict != report.TrialHelps || *evaluation.P > r.PlannedTrials.Bar || r.PlannedTrials.Evaluated != 1 {
		t.Errorf("planned evaluation %+v: want verdict %s and P at most %v; finished evaluations: got %d, want 1", evaluation, report.TrialHelps, r.PlannedTrials.Bar, r.PlannedTrials.Evaluated)
	}
	// Feedback after the close changes a session's reward, but not the finished evaluation.
	before := r
	for n := range 60 {
		name := fmt.Sprintf("season-%d", n)
		status, answer := harness.Post(t, p.DataURL+"/v1/feedback", nil, fmt.Sprintf(`{"session_id":%q,"source":"user","type":"score","score":1,"rater":"later"}`, name))
		if status != http.StatusAccepted || !strings.Contains(answer, "joined") {
			t.Fatalf(`feedback on %s: got status %d, answer %s, want 202 and an answer with "joined"`, name, status, answer)
		}
	}
	p.Eventually("60 corrected sessions in the export", func() bool {
		corrected := 0
		for line := range strings.Lines(string(runPrecept("export", "--format", "experiment"))) {
			var c struct {
				Coin, Arm        string
				Outcome          *float64
				OutcomeAtClosing *float64 `json:"outcome_at_closing"`
				TierAtClosing    int      `json:"tier_at_closing"`
			}
			if err := json.Unmarshal([]byte(line), &c); err != nil {
				t.Fatal(err)
			}
			if (c.OutcomeAtClosing == nil) != (c.TierAtClosing == 0) {
				t.Fatalf("exported line %s must have both outcome_at_closing and tier_at_closing, or neither", line)
			}
			if c.Coin == "control" && c.Arm == "" && c.Outcome != nil && (c.OutcomeAtClosing == nil || *c.OutcomeAtClosing != *c.Outcome) {
				corrected++
			}
		}
		return corrected == 60
	})
	p.Eventually("the corrected rewards in the report", func() bool {
		r = report.Report{}
		if err := json.Unmarshal(runPrecept("report", "--json", "--lessons", lessons), &r); err != nil {
			t.Fatal(err)
		}
		return r.Global.NTreated+r.Global.NControl == sessions*9/10+6 && *r.Lessons[0].Effect != *before.Lessons[0].Effect
	})
	if after := r.Lessons[0].PlannedTrials[0]; *after.Effect != *evaluation.Effect || *after.P != *evaluation.P || after.Rewarded != evaluation.Rewarded {
		t.Errorf("planned evaluation after later feedback: got %+v, want %+v", after, evaluation)
	}
	if r.Reporting.EValue != before.Reporting.EValue || r.Lessons[0].Reporting != before.Lessons[0].Reporting || r.Reporting.RewardedTreated == before.Reporting.RewardedTreated {
		t.Errorf("reporting after later feedback: got %+v, want the earlier e-value %v, and a RewardedTreated other than %d", r.Reporting, before.Reporting.EValue, before.Reporting.RewardedTreated)
	}
	script := exec.CommandContext(t.Context(), python, filepath.Join("..", "..", "examples", "experiment", "recompute.py"), "--json")
	trials := string(runPrecept("export", "--format", "experiment", "--tenant", "default"))
	// Sessions closed under an older reward definition do not count.
	older := strings.NewReplacer(`"reward_definition":"user>verifier>implicit@1s"`, `"reward_definition":"user@1s"`, `"at":"20`, `"at":"19`).Replace(trials)
	if older == trials {
		t.Fatalf("export %.300s has no reward definition and no time to replace", trials)
	}
	script.Stdin = strings.NewReader(older + trials)
	out, err := script.Output()
	if err != nil {
		t.Fatal(err)
	}
	type recomputed struct {
		Arm, Trial     string
		Taken          bool
		P              *float64
		With           int64 `json:"n_with"`
		Without        int64 `json:"n_without"`
		Effect, Lo, Hi *float64
		SRM, Reporting float64 // e-values: wrong share of withheld picks, and unequal shares of rewarded sessions
		Name           string
		MeanWith       *float64 `json:"mean_with"`
		MeanWithout    *float64 `json:"mean_without"`
		EFewer         float64  `json:"e_fewer"`
		EMore          float64  `json:"e_more"`
		Explained      *float64
		AllSessions    *report.AllSessions `json:"all_sessions"`
		Models         []report.ModelEffect
	}
	var scriptRows []recomputed
	if err := json.Unmarshal(out, &scriptRows); err != nil {
		t.Fatalf("recompute.py: decode output %[2]s: %[1]v", err, out)
	}
	withEffect := 0
	nearlyEqual := func(x, y float64) bool { return math.Abs(x-y) <= 1e-9*y }
	checkArm := func(arm string, with, without int64, srm, reporting float64, reported ...*float64) {
		t.Helper()
		for _, a := range scriptRows {
			if a.Arm != arm || a.Trial != "" || a.Name != "" {
				continue
			}
			if a.With != with || a.Without != without {
				t.Errorf("%s: recomputed sessions: %d with the lesson, %d without; reported: %d and %d", arm, a.With, a.Without, with, without)
			}
			for i, computed := range []*float64{a.Effect, a.Lo, a.Hi} {
				if (computed == nil) != (reported[i] == nil) || (computed != nil && math.Abs(*computed-*reported[i]) > 1e-12) {
					t.Errorf("%s: %s: recomputed %s, reported %s", arm, []string{"effect", "lo", "hi"}[i], formatOptional(computed), formatOptional(reported[i]))
				}
			}
			if !nearlyEqual(a.SRM, srm) || !nearlyEqual(a.Reporting, reporting) || srm == 1 || reporting == 1 {
				t.Errorf("%s: recomputed e-values SRM and Reporting = %v and %v, reported %v and %v, want equal values other than 1", arm, a.SRM, a.Reporting, srm, reporting)
			}
			if a.Effect != nil {
				withEffect++
			}
			return
		}
		t.Errorf("script output lacks arm %q: %s", arm, out)
	}
	checkArm("", r.Global.NTreated, r.Global.NControl, r.SRM.EValue, r.Reporting.EValue, r.Global.Effect, r.Global.Lo, r.Global.Hi)
	for _, l := range r.Lessons {
		checkArm(string(l.Arm), l.NInjected, l.NWithheld, l.SRM.EValue, l.Reporting.EValue, l.Effect, l.Lo, l.Hi)
	}
	for _, a := range scriptRows {
		if a.Trial != "" && (a.With != evaluation.NInjected || a.Without != evaluation.NWithheld || math.Abs(*a.Effect-*evaluation.Effect) > 1e-12 ||
			math.Abs(*a.Lo-*evaluation.Lo) > 1e-12 || math.Abs(*a.Hi-*evaluation.Hi) > 1e-12 || math.Abs(*a.P-*evaluation.P) > 1e-12 || !a.Taken) {
			t.Errorf("recomputed planned evaluation in %s, reported: %+v", out, evaluation)
		}
	}
	outcomes := 0
	for _, l := range r.Lessons {
		for _, x := range l.Outcomes {
			outcomes++
			i := slices.IndexFunc(scriptRows, func(a recomputed) bool { return a.Arm == l.Arm && a.Name == x.Name })
			if i < 0 {
				t.Errorf("script output lacks outcome %s for %s: %s", x.Name, l.Arm, out)
				continue
			}
			a := &scriptRows[i]
			if a.With != x.NInjected || a.Without != x.NWithheld || !nearlyEqual(a.EFewer, x.EFewer) || !nearlyEqual(a.EMore, x.EMore) {
				t.Errorf("outcome %s for %s: recomputed %+v, reported %+v", x.Name, l.Arm, a, x)
			}
			for i, pair := range [][2]*float64{{a.MeanWith, x.MeanInjected}, {a.MeanWithout, x.MeanWithheld}, {a.Effect, x.Effect}, {a.Lo, x.Lo}, {a.Hi, x.Hi}} {
				if (pair[0] == nil) != (pair[1] == nil) || pair[0] != nil && math.Abs(*pair[0]-*pair[1]) > 1e-9 {
					t.Errorf("%s of outcome %s for %s: recomputed %s, reported %s", []string{"mean with", "mean without", "effect", "lo", "hi"}[i], x.Name, l.Arm, formatOptional(pair[0]), formatOptional(pair[1]))
				}
			}
		}
	}
	for _, l := range r.Lessons {
		a := &scriptRows[slices.IndexFunc(scriptRows, func(a recomputed) bool { return a.Arm == l.Arm && a.Trial == "" && a.Name == "" })]
		equal := func(x, y *float64) bool { return (x == nil) == (y == nil) && (x == nil || math.Abs(*x-*y) <= 1e-9) }
		if !equal(a.Explained, l.ExplainedShare) {
			t.Errorf("%s: recomputed Explained = %s, reported %s", l.Arm, formatOptional(a.Explained), formatOptional(l.ExplainedShare))
		}
		if (a.AllSessions == nil) != (l.AllSessions == nil) {
			t.Errorf("%s: recomputed AllSessions = %+v, reported %+v", l.Arm, a.AllSessions, l.AllSessions)
		} else if x, y := a.AllSessions, l.AllSessions; x != nil && (x.Sessions != y.Sessions || x.Rewarded != y.Rewarded ||
			y.OffReason == "" && (!equal(x.Effect, y.Effect) || !equal(x.Lo, y.Lo) || !equal(x.Hi, y.Hi) || math.Abs(x.Gain-y.Gain) > 1e-9)) {
			t.Errorf("%s: recomputed AllSessions = %+v, reported %+v", l.Arm, x, y)
		}
		if len(a.Models) != len(l.Models.Effects) || len(a.Models) == 0 {
			t.Errorf("%s: recomputed Models = %+v, reported %+v", l.Arm, a.Models, l.Models.Effects)
			continue
		}
		for i, x := range l.Models.Effects {
			if y := a.Models[i]; y.Model != x.Model || y.Picks != x.Picks || !equal(y.Effect, x.Effect) || !equal(y.Shrunken, x.Shrunken) {
				t.Errorf("%s: recomputed model %+v, reported %+v", l.Arm, y, x)
			}
		}
	}
	if len(scriptRows) != 2+len(r.Lessons)+outcomes || withEffect < 3 || outcomes < 12 {
		t.Errorf("rows of the script: got %d arms with an effect, want at least 3; got %d in total, want %d; reported outcomes: got %d, want at least 12", withEffect, len(scriptRows), 2+len(r.Lessons)+outcomes, outcomes)
	}

	explained := strings.Join(strings.Fields(string(runPrecept("report", "--explain", "look-at-apples", "--lessons", lessons))), " ") // without line breaks
	if !strings.Contains(explained, "sum z / n") || !strings.Contains(explained, "one look") || !strings.Contains(explained, "missing") {
		t.Errorf("report --explain lacks \"sum z / n\", \"one look\" or \"missing\":\n%s", explained)
	}
	var rows []report.Row
	if err := json.Unmarshal(runPrecept("report", "--explain", "look-at-apples", "--json", "--lessons", lessons), &rows); err != nil || len(rows) != 1 || rows[0].Explanation == nil ||
		math.Abs(*rows[0].Explanation.Mean-*r.Lessons[0].Effect) > 1e-9 {
		t.Errorf("report --explain --json: got error %v, rows %+v, want one row with the reported effect %v", err, rows, *r.Lessons[0].Effect)
	}

	p.Stop()
	var other report.Report
	if err := json.Unmarshal(runPrecept("report", "--json", "--lessons", lessons, "--reward-tiers", "verifier", "--reward-close-after", "1s", "--reward-sentiment"), &other); err != nil {
		t.Fatal(err)
	}
	if other.RewardDefinition != "verifier+sentiment@1s" || other.Global.NTreated != 0 || fmt.Sprint(other.OtherDefinitions) != fmt.Sprintf("[{user>verifier>implicit@1s %d}]", sessions) {
		t.Errorf("report under a different reward definition: got definition %q, %d treated sessions, elsewhere %v, want 0 treated and %d elsewhere",
			other.RewardDefinition, other.Global.NTreated, other.OtherDefinitions, sessions)
	}
}
