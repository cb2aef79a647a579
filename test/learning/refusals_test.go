package learning

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"precept/bandit/report"
	"precept/inject/bank/banktest"
	"precept/store/storetest"
	"precept/test/harness"
)

// startRefusingModel starts a model that refuses a request if it contains both an inserted lesson and the words "please
// refuse".
func startRefusingModel(t *testing.T) string {
	t.Helper()
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(string(b), "End of lessons.") && strings.Contains(string(b), "please refuse") {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, `{"error":{"message":"no"}}`)
			return
		}
		_, _ = io.WriteString(w, harness.ChatReply("c", "ok"))
	}))
	t.Cleanup(model.Close)
	return model.URL + "/v1"
}

// A lesson can stop reaching the model: the model refuses a request, the agent shortens the history, or the client
// forbids insertions. The session still counts with its assignment (lesson injected or withheld) and its reward.
func TestRefusedSessionsStayInExperiment(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sqlite", "redis"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir, lessons := t.TempDir(), t.TempDir()
			banktest.WriteLesson(t, lessons, "look-first", "targets")
			args := []string{
				"--upstream", startRefusingModel(t), "--lessons", lessons, "--reward-close-after", "2s", "--limits-lookup-timeout", "10s",
				"--bandit-epsilon", "0.5", "--bandit-control", "0.2", "--bandit-objective", "all",
			}
			if kind == "redis" {
				args = append(args, "--store-url", "redis://"+storetest.StartRedis(t).Addr+"/0")
			}
			p := harness.Launch(t, dir, []string{"PRECEPT_ADMIN_TOKEN=refused"}, args...).WaitUntilReady(dir)
			const sessions = 60
			for n := range sessions {
				sendRefusedSession(t, p.DataURL, n)
			}
			var r report.Report
			readReport := func() {
				t.Helper()
				status, body := harness.Get(t, p.AdminURL+"/api/report", "refused")
				if r = (report.Report{}); status != http.StatusOK || json.Unmarshal([]byte(body), &r) != nil {
					t.Fatalf("/api/report: got status %d, body %s, want 200 and JSON", status, body)
				}
			}
			p.Eventually("all sessions to be counted", func() bool {
				readReport()
				return r.Global.NTreated+r.Global.NControl == sessions
			})
			p.Stop()
			p = harness.Launch(t, dir, []string{"PRECEPT_ADMIN_TOKEN=refused"}, args...).WaitUntilReady(dir)
			readReport()
			row := r.Lessons[0]
			if row.Rewarded != row.Picked || row.Picked != r.Global.NTreated || row.NInjected == 0 || row.NWithheld == 0 || !row.SRM.OK {
				t.Errorf("lesson row: got %+v, want Rewarded = Picked = %d treated sessions, NInjected and NWithheld above 0, and SRM.OK", row, r.Global.NTreated)
			}
			if row.RefusedWith == 0 || row.RefusedWith >= row.NInjected || row.RefusedWithout != 0 || r.Global.RefusedTreated != row.RefusedWith || r.Global.RefusedControl != 0 {
				t.Errorf("refused sessions: got %d with the lesson (want 1 to %d), %d without (want 0), %d treated (want the number with the lesson), %d control (want 0)",
					row.RefusedWith, row.NInjected-1, row.RefusedWithout, r.Global.RefusedTreated, r.Global.RefusedControl)
			}
			if _, page := harness.Get(t, p.AdminURL+"/", "refused"); !strings.Contains(page, fmt.Sprintf(">%d / 0</td>", row.RefusedWith)) {
				t.Errorf("the dashboard lacks \"%d / 0\", the refusals with and without the lesson", row.RefusedWith)
			}
		})
	}
}

// sendRefusedSession sends session n in one of three kinds, by n%3. Kind 0: the model refuses lessons. Kind 1: the
// agent shortens the history. Kind 2: the client forbids insertions in the second turn.
func sendRefusedSession(t *testing.T, baseURL string, n int) {
	t.Helper()
	name := fmt.Sprintf("meets-%d", n)
	text, header := "build the targets", http.Header{"Precept-Session": {name}}
	if n%3 == 0 {
		text = "build the targets, please refuse"
	}
	turn := func(messages string, header http.Header) {
		t.Helper()
		if status, answer := harness.Post(t, baseURL+"/v1/chat/completions", header, `{"model":"m","messages":[`+messages+`]}`); status != http.StatusOK {
			t.Fatalf("chat request: got status %d, answer %s, want 200", status, answer)
		}
	}
	first := fmt.Sprintf(`{"role":"user","content":%q}`, text)
	turn(first, header)
	switch n % 3 {
	case 1:
		turn(`{"role":"user","content":"Summary: it went well."},{"role":"user","content":"go on"}`, header)
	case 2:
		off := header.Clone()
		off.Set("Precept-Inject", "off")
		turn(first+`,{"role":"assistant","content":"ok"},{"role":"user","content":"go on"}`, off)
	}
	if status, answer := harness.Post(t, baseURL+"/v1/feedback", nil, fmt.Sprintf(`{"session_id":%q,"source":"user","type":"score","score":1}`, name)); status != http.StatusAccepted {
		t.Fatalf("feedback: got status %d, answer %s, want 202", status, answer)
	}
}
