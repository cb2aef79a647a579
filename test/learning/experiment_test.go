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

// sendSessions sends the requests and the feedback of the sessions with the numbers first to end-1. Only the lesson
// look-at-apples changes the rewards.
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

// A script that shares no code with precept recomputes every number of the report from the export.
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
	readReport := func() {
		t.Helper()
		r = report.Report{}
		if err := json.Unmarshal(runPrecept("report", "--json", "--lessons", lessons), &r); err != nil {
			t.Fatal(err)
		}
	}
	runPrecept("lessons", "trial", "look-at-apples", "--picks", "120", "--epsilon", "0.4", "--yes", "--lessons", lessons)
	p.Eventually("the trial to begin", func() bool {
		readReport()
		return len(r.Lessons) > 0 && r.Lessons[0].Trial == "running" && r.PlannedTrials.Planned == 1
	})
	sessionsClosed := func(sessions int64) func() bool {
		return func() bool {
			readReport()
			return r.Reporting.AssignedTreated+r.Reporting.AssignedControl == sessions && r.Global.NTreated+r.Global.NControl == sessions*9/10 // every tenth session has no feedback
		}
	}
	const first, sessions = 150, 400
	sendSessions(t, p.DataURL, 0, first) // the estimate AllSessions needs rewards from earlier sessions
	p.Eventually("the first sessions to be closed", sessionsClosed(first))
	sendSessions(t, p.DataURL, first, sessions)
	p.Eventually("all sessions to be closed", sessionsClosed(sessions))
	evaluation := r.Lessons[0].PlannedTrials[0]
	if !evaluation.Evaluated || evaluation.NInjected+evaluation.NWithheld != 120 || evaluation.Effect == nil || r.Lessons[0].Trial != "ended" || r.Lessons[0].AfterTrial == "" || r.Lessons[0].Epsilon == 0.4 {
		t.Fatalf("planned evaluation: got %+v for lesson %+v, want 120 picks, an effect, and an ended trial with an epsilon other than 0.4", evaluation, r.Lessons[0])
	}
	if evaluation.Verdict != report.TrialHelps || *evaluation.P > r.PlannedTrials.Bar || r.PlannedTrials.Evaluated != 1 {
		t.Errorf("planned evaluation: got %+v, want verdict %s and P at most %v; finished evaluations: got %d, want 1", evaluation, report.TrialHelps, r.PlannedTrials.Bar, r.PlannedTrials.Evaluated)
	}
	// Feedback after the close changes the reward of a session, but not the finished evaluation.
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
				t.Fatalf("exported line %s has only one of outcome_at_closing and tier_at_closing, want both or neither", line)
			}
			if c.Coin == "control" && c.Arm == "" && c.Outcome != nil && (c.OutcomeAtClosing == nil || *c.OutcomeAtClosing != *c.Outcome) {
				corrected++
			}
		}
		return corrected == 60
	})
	p.Eventually("the corrected rewards in the report", func() bool { // 6 of the 60 sessions got their first feedback only now
		readReport()
		return r.Global.NTreated+r.Global.NControl == sessions*9/10+6 && *r.Lessons[0].Effect != *before.Lessons[0].Effect
	})
	if after := r.Lessons[0].PlannedTrials[0]; *after.Effect != *evaluation.Effect || *after.P != *evaluation.P || after.Rewarded != evaluation.Rewarded {
		t.Errorf("planned evaluation after later feedback: got %+v, want %+v", after, evaluation)
	}
	if r.Reporting.EValue != before.Reporting.EValue || r.Lessons[0].Reporting != before.Lessons[0].Reporting || r.Reporting.RewardedTreated == before.Reporting.RewardedTreated {
		t.Errorf("Reporting after later feedback: got %+v, want the earlier e-value, %v, and more or fewer rewarded treated sessions than the earlier %d", r.Reporting, before.Reporting.EValue, before.Reporting.RewardedTreated)
	}
	trials := string(runPrecept("export", "--format", "experiment", "--tenant", "default"))
	// A session that was closed under an older reward definition does not count in the report.
	older := strings.NewReplacer(`"reward_definition":"user>verifier>implicit@1s"`, `"reward_definition":"user@1s"`, `"at":"20`, `"at":"19`).Replace(trials)
	if older == trials {
		t.Fatalf("export %.300s lacks a reward definition and a time that the test can replace", trials)
	}
	script := exec.CommandContext(t.Context(), python, filepath.Join("..", "..", "examples", "experiment", "recompute.py"), "--json")
	script.Stdin = strings.NewReader(older + trials)
	out, err := script.Output()
	if err != nil {
		t.Fatal(err)
	}
	c := &recomputation{t: t, output: out}
	if err := json.Unmarshal(out, &c.rows); err != nil {
		t.Fatalf("recompute.py: decode output %s: %v", out, err)
	}
	c.compareArm(recomputedRow{With: r.Global.NTreated, Without: r.Global.NControl, SRM: r.SRM.EValue, Reporting: r.Reporting.EValue, Effect: r.Global.Effect, Lo: r.Global.Lo, Hi: r.Global.Hi})
	outcomes := 0
	for i := range r.Lessons {
		l := &r.Lessons[i]
		c.compareArm(recomputedRow{Arm: l.Arm, With: l.NInjected, Without: l.NWithheld, SRM: l.SRM.EValue, Reporting: l.Reporting.EValue, Effect: l.Effect, Lo: l.Lo, Hi: l.Hi})
		c.compareOutcomes(l)
		c.compareEstimates(l)
		outcomes += len(l.Outcomes)
	}
	c.comparePlannedTrial(evaluation)
	withEffect := 0
	for i := range c.rows {
		if c.rows[i].isArm() && c.rows[i].Effect != nil {
			withEffect++
		}
	}
	if want := 2 + len(r.Lessons) + outcomes; len(c.rows) != want || withEffect < 3 || outcomes < 12 { // 2 more: all lessons together, and the planned trial
		t.Errorf("rows from recompute.py: got %d, want %d; arm rows with an effect: got %d, want at least 3; reported outcomes: got %d, want at least 12", len(c.rows), want, withEffect, outcomes)
	}

	explained := strings.Join(strings.Fields(string(runPrecept("report", "--explain", "look-at-apples", "--lessons", lessons))), " ") // without line breaks
	if !strings.Contains(explained, "sum z / n") || !strings.Contains(explained, "evaluated once") || !strings.Contains(explained, "missing") {
		t.Errorf("report --explain lacks \"sum z / n\", \"evaluated once\" or \"missing\":\n%s", explained)
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
		t.Errorf("report under a different reward definition: got definition %q, %d treated sessions, other definitions %v, want no treated session and %d sessions under the other definition",
			other.RewardDefinition, other.Global.NTreated, other.OtherDefinitions, sessions)
	}
}

// recomputedRow is a row in the output of recompute.py. It describes an outcome if Name is set, a planned trial if
// Trial is set, and otherwise an arm. The arm "" stands for all lessons together.
type recomputedRow struct {
	Arm, Trial, Name string
	Taken            bool // the planned trial is evaluated
	P                *float64
	With             int64 `json:"n_with"`
	Without          int64 `json:"n_without"`
	Effect, Lo, Hi   *float64
	SRM, Reporting   float64  // e-values against the right share of withheld picks, and against equal shares of rewarded sessions
	MeanWith         *float64 `json:"mean_with"`
	MeanWithout      *float64 `json:"mean_without"`
	EFewer           float64  `json:"e_fewer"`
	EMore            float64  `json:"e_more"`
	Explained        *float64
	AllSessions      *report.AllSessions `json:"all_sessions"`
	Models           []report.ModelEffect
}

func (r *recomputedRow) isArm() bool { return r.Trial == "" && r.Name == "" }

// recomputation compares the output of recompute.py with the report.
type recomputation struct {
	t      *testing.T
	output []byte
	rows   []recomputedRow
}

// find returns the row for an arm, or if outcome is not empty, the row for this outcome of the arm.
func (c *recomputation) find(arm, outcome string) *recomputedRow {
	c.t.Helper()
	i := slices.IndexFunc(c.rows, func(r recomputedRow) bool { return r.Arm == arm && r.Trial == "" && r.Name == outcome })
	if i < 0 {
		c.t.Fatalf("recompute.py: the output lacks arm %q, outcome %q:\n%s", arm, outcome, c.output)
	}
	return &c.rows[i]
}

func (c *recomputation) compareArm(reported recomputedRow) {
	c.t.Helper()
	got := c.find(reported.Arm, "")
	if got.With != reported.With || got.Without != reported.Without {
		c.t.Errorf("%s: recomputed sessions: got %d with the lesson and %d without, want the reported %d and %d", got.Arm, got.With, got.Without, reported.With, reported.Without)
	}
	c.compareNumber(got.Arm+": effect", 1e-12, got.Effect, reported.Effect)
	c.compareNumber(got.Arm+": lo", 1e-12, got.Lo, reported.Lo)
	c.compareNumber(got.Arm+": hi", 1e-12, got.Hi, reported.Hi)
	if !nearlyEqual(got.SRM, reported.SRM) || !nearlyEqual(got.Reporting, reported.Reporting) || reported.SRM == 1 || reported.Reporting == 1 {
		c.t.Errorf("%s: recomputed e-values SRM and Reporting: got %v and %v, want the reported %v and %v, other than 1", got.Arm, got.SRM, got.Reporting, reported.SRM, reported.Reporting)
	}
}

func (c *recomputation) comparePlannedTrial(reported report.PlannedTrial) {
	c.t.Helper()
	for _, got := range c.rows {
		if got.Trial == "" {
			continue
		}
		if got.With != reported.NInjected || got.Without != reported.NWithheld || !got.Taken {
			c.t.Errorf("recomputed planned trial: got %d injected, %d withheld, evaluated %v, want the reported %d and %d, and true", got.With, got.Without, got.Taken, reported.NInjected, reported.NWithheld)
		}
		c.compareNumber("planned trial: effect", 1e-12, got.Effect, reported.Effect)
		c.compareNumber("planned trial: lo", 1e-12, got.Lo, reported.Lo)
		c.compareNumber("planned trial: hi", 1e-12, got.Hi, reported.Hi)
		c.compareNumber("planned trial: p", 1e-12, got.P, reported.P)
	}
}

func (c *recomputation) compareOutcomes(l *report.Row) {
	c.t.Helper()
	for _, reported := range l.Outcomes {
		got, name := c.find(l.Arm, reported.Name), fmt.Sprintf("%s, outcome %s", l.Arm, reported.Name)
		if got.With != reported.NInjected || got.Without != reported.NWithheld || !nearlyEqual(got.EFewer, reported.EFewer) || !nearlyEqual(got.EMore, reported.EMore) {
			c.t.Errorf("%s: recomputed: got %+v, want the reported %+v", name, got, reported)
		}
		c.compareNumber(name+": mean with the lesson", 1e-9, got.MeanWith, reported.MeanInjected)
		c.compareNumber(name+": mean without the lesson", 1e-9, got.MeanWithout, reported.MeanWithheld)
		c.compareNumber(name+": effect", 1e-9, got.Effect, reported.Effect)
		c.compareNumber(name+": lo", 1e-9, got.Lo, reported.Lo)
		c.compareNumber(name+": hi", 1e-9, got.Hi, reported.Hi)
	}
}

// compareEstimates compares the explained share, the estimate from all sessions, and the effects by model.
func (c *recomputation) compareEstimates(l *report.Row) {
	c.t.Helper()
	got, arm := c.find(l.Arm, ""), l.Arm
	c.compareNumber(arm+": explained share", 1e-9, got.Explained, l.ExplainedShare)
	if (got.AllSessions == nil) != (l.AllSessions == nil) {
		c.t.Errorf("%s: recomputed AllSessions: got %+v, want the reported %+v", arm, got.AllSessions, l.AllSessions)
	} else if x, y := got.AllSessions, l.AllSessions; x != nil {
		if x.Sessions != y.Sessions || x.Rewarded != y.Rewarded || y.OffReason == "" && math.Abs(x.Gain-y.Gain) > 1e-9 {
			c.t.Errorf("%s: recomputed AllSessions: got %+v, want the reported %+v", arm, x, y)
		}
		if y.OffReason == "" {
			c.compareNumber(arm+": effect in all sessions", 1e-9, x.Effect, y.Effect)
			c.compareNumber(arm+": lo in all sessions", 1e-9, x.Lo, y.Lo)
			c.compareNumber(arm+": hi in all sessions", 1e-9, x.Hi, y.Hi)
		}
	}
	if len(got.Models) != len(l.Models.Effects) || len(got.Models) == 0 {
		c.t.Fatalf("%s: recomputed Models: got %+v, want the reported %+v", arm, got.Models, l.Models.Effects)
	}
	for i, reported := range l.Models.Effects {
		model := got.Models[i]
		if model.Model != reported.Model || model.Picks != reported.Picks {
			c.t.Errorf("%s: recomputed model: got %+v, want the reported %+v", arm, model, reported)
		}
		c.compareNumber(arm+", model "+model.Model+": effect", 1e-9, model.Effect, reported.Effect)
		c.compareNumber(arm+", model "+model.Model+": shrunken effect", 1e-9, model.Shrunken, reported.Shrunken)
	}
}

// compareNumber checks that two numbers are equal within the tolerance, or that both are nil (no number).
func (c *recomputation) compareNumber(name string, tolerance float64, recomputed, reported *float64) {
	c.t.Helper()
	switch {
	case recomputed == nil && reported == nil:
	case recomputed == nil || reported == nil:
		c.t.Errorf("%s: recomputed a number: %v, reported a number: %v, want the same for both", name, recomputed != nil, reported != nil)
	case math.Abs(*recomputed-*reported) > tolerance:
		c.t.Errorf("%s: recomputed: got %v, want the reported %v", name, *recomputed, *reported)
	}
}

func nearlyEqual(x, y float64) bool { return math.Abs(x-y) <= 1e-9*y }
