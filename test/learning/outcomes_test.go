//go:build !race

package learning

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"precept/bandit/report"
	"precept/test/harness"
)

const lockLesson = `---
schema: learning/v1
slug: wait-for-the-lock
title: Wait for the lock of the state file.
trigger:
  description: A command fails because another process holds the lock.
  metadata: {precept: {error_patterns: ["could not lock the state file"]}}
outcome: failure
evidence: [{kind: run, ref: run-1}]
confidence: 0.5
---
## What to do (or avoid)
Wait ten seconds before the next command.
`

// The lesson prevents a specific error. After 150 short sessions, the outcome "recurrence" (the error occurs again)
// proves this effect, but the rewards do not.
func TestRecurrenceOutcomeProvesEffectBeforeRewards(t *testing.T) {
	t.Parallel()
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		answer := "go on"
		if strings.Contains(string(b), "[wait-for-the-lock]") {
			answer = "waiting"
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":"c","object":"chat.completion","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":%q}}],"usage":{"prompt_tokens":%d,"completion_tokens":9,"total_tokens":9}}`, answer, len(b)/4)
	}))
	t.Cleanup(model.Close)
	lessons := t.TempDir()
	if err := os.MkdirAll(filepath.Join(lessons, "wait-for-the-lock"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(lessons, "wait-for-the-lock", "LESSON.md"), []byte(lockLesson), 0o600); err != nil {
		t.Fatal(err)
	}
	p := harness.Start(t, t.TempDir(), "--upstream", model.URL+"/v1", "--lessons", lessons, "--reward-close-after", "1s",
		"--bandit-objective", "all", "--bandit-epsilon", "0.5", "--bandit-control", "0")
	const sessions = 150
	var workers sync.WaitGroup
	for w := range 3 {
		workers.Go(func() {
			for n := w; n < sessions; n += 3 {
				sendDeploySession(t, p.DataURL, n)
			}
		})
	}
	workers.Wait()
	var r report.Report
	p.Eventually("all sessions to close", func() bool {
		r = report.Report{}
		return p.GetAdmin(t, "/api/report", &r) == http.StatusOK && len(r.Lessons) == 1 && r.Lessons[0].Picked == sessions
	})
	row := &r.Lessons[0]
	outcomes := map[string]report.Outcome{}
	for _, x := range row.Outcomes {
		outcomes[x.Name] = x
	}
	recurrence := outcomes["recurrence"]
	if recurrence.Verdict != report.Prevents || recurrence.NInjected+recurrence.NWithheld != sessions || recurrence.Effect == nil || *recurrence.Lo > -0.6 || *recurrence.Hi < -0.6 {
		t.Errorf("recurrence: got %+v, want verdict %s from %d sessions and an interval around -0.6", recurrence, report.Prevents, sessions)
	}
	if row.Rewarded == 0 || row.Rewarded >= sessions || row.Verdict != report.Unproven && row.Verdict != report.LikelyHelps && row.Verdict != report.Benched {
		t.Errorf("lesson: got %d rewarded sessions and verdict %q, want 1 to %d sessions and verdict %s, %s or %s", row.Rewarded, row.Verdict, sessions-1, report.Unproven, report.LikelyHelps, report.Benched)
	}
	if x := outcomes["errors"]; x.Verdict.Direction() != -1 || outcomes["tokens"].NInjected != recurrence.NInjected || outcomes["turns"].Verdict.Direction() > 0 {
		t.Errorf("outcomes: got errors %+v, tokens %+v, turns %+v, want a proof of fewer errors, tokens from %d injected sessions, and no proof of more turns", x, outcomes["tokens"], outcomes["turns"], recurrence.NInjected)
	}
	if data, err := json.Marshal(row.Outcomes); err != nil || strings.Contains(string(data), "helps") {
		t.Errorf("outcomes as JSON: got %s, error %v, want no verdict with \"helps\"", data, err)
	}
}

// sendDeploySession sends a session with two commands. The second command fails in 20% of the sessions with the lesson,
// and in 80% of the sessions without the lesson.
func sendDeploySession(t *testing.T, baseURL string, n int) {
	t.Helper()
	name := fmt.Sprintf("deploy-%d", n)
	var list []map[string]any
	ask := func() (reply string) {
		body, err := json.Marshal(map[string]any{"model": "m", "messages": list})
		if err != nil {
			t.Error(err)
		}
		status, answer := harness.Post(t, baseURL+"/v1/chat/completions", http.Header{"Precept-Session": {name}}, string(body))
		var completion struct {
			Choices []struct{ Message struct{ Content string } }
		}
		if err := json.Unmarshal([]byte(answer), &completion); err != nil || status != http.StatusOK || len(completion.Choices) != 1 {
			t.Errorf("chat request: got status %d, answer %s, error %v, want 200 and one choice", status, answer, err)
			return ""
		}
		return completion.Choices[0].Message.Content
	}
	run := func(step int, out string) string {
		id := fmt.Sprintf("call-%d-%d", n, step)
		list = append(list,
			map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
				"id": id, "type": "function", "function": map[string]any{"name": "bash", "arguments": fmt.Sprintf(`{"command":"deploy --step %d"}`, step)},
			}}},
			map[string]any{"role": "tool", "tool_call_id": id, "content": out})
		return ask()
	}
	const failed = "Error: could not lock the state file\nExit code 1"
	list = append(list, map[string]any{"role": "user", "content": "deploy " + name})
	ask()
	waits := run(1, failed) == "waiting"
	out := "deployed"
	if oneInFive := n/2%5 == 0; waits == oneInFive {
		out = failed
	}
	run(2, out)
	if n%4 == 0 {
		harness.Post(t, baseURL+"/v1/feedback", nil, fmt.Sprintf(`{"session_id":%q,"source":"user","type":"score","score":%d}`, name, n/4%2))
	}
}
