package server

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"precept/store/storetest"
	"precept/test/harness"
)

func TestFeedbackEntriesAreLimited(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sqlite", "redis"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, harness.ChatReply("c", "ok"))
			}))
			t.Cleanup(model.Close)
			flags := []string{"--limits-feedback", "3", "--limits-lookup-timeout", "10s"}
			if kind == "redis" {
				flags = append(flags, "--store-url", "redis://"+storetest.StartRedis(t).Addr+"/0")
			}
			dir := t.TempDir()
			p := harness.StartWithUpstream(t, dir, model.URL, flags...)
			sendTurn := func(headers ...string) {
				t.Helper()
				h := http.Header{}
				for i := 0; i < len(headers); i += 2 {
					h.Set(headers[i], headers[i+1])
				}
				if status, b := harness.Post(t, p.DataURL+"/v1/chat/completions", h, `{"model":"m","messages":[{"role":"user","content":"hello"}]}`); status != 200 {
					t.Fatalf("chat request with headers %v: got status %d, body %s, want 200", headers, status, b)
				}
			}
			postFeedback := func(wantStatus int, wantText, session string, ids ...string) {
				t.Helper()
				var list []string
				for _, id := range ids {
					list = append(list, fmt.Sprintf(`{"id":%q,"session_id":%q,"source":"user","type":"score","score":1,"rater":%q}`, id, session, id))
				}
				body := strings.Join(list, ",")
				if len(ids) > 1 {
					body = "[" + body + "]"
				}
				if status, b := harness.Post(t, p.DataURL+"/v1/feedback", nil, body); status != wantStatus || !strings.Contains(b, wantText) {
					t.Errorf("feedback %v on session %s: got status %d, body %s, want %d and a body with %q",
						ids, session, status, b, wantStatus, wantText)
				}
			}

			// With limits.feedback = 3, a fourth entry is refused. A repeated id replaces an entry.
			sendTurn("Precept-Session", "alone")
			postFeedback(202, "joined", "alone", "a")
			postFeedback(202, "joined", "alone", "b", "c")
			postFeedback(429, "limits.feedback", "alone", "d")
			postFeedback(202, "joined", "alone", "b")
			postFeedback(202, `{"id":"d","status":"refused","error":"this session or run already has`, "alone", "c", "d", "a")

			postFeedback(202, "parked", "later", "a", "b", "c")
			postFeedback(429, "post the feedback again after the reply", "later", "d")
			postFeedback(202, "parked", "later", "b")
			sendTurn("Precept-Session", "later")
			p.Eventually("the parked feedback, posted before the session began, to join the session", func() bool {
				_, b := harness.Get(t, p.AdminURL+"/api/health", "token")
				return strings.Contains(b, `"parked":0`)
			})
			postFeedback(429, "limits.feedback", "later", "d")

			// The run's limit is 3, so one of the four entries does not count for the run.
			for _, name := range []string{"m1", "m2", "m3", "m4"} {
				sendTurn("Precept-Session", name, "Precept-Run", "r")
				postFeedback(202, "joined", name, "x")
			}
			_, metrics := harness.Get(t, p.AdminURL+"/metrics", "token")
			for _, line := range []string{
				`precept_feedback_total{source="user",status="full",type="score"} 4`, "precept_feedback_left_out_total 1",
			} {
				if !strings.Contains(metrics, line+"\n") {
					t.Errorf("/metrics lacks %q", line)
				}
			}
			p.Stop()
		})
	}
}
