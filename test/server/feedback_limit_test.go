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
			sendTurn := func(header http.Header) {
				t.Helper()
				p.Chat(t, header, `{"model":"m","messages":[{"role":"user","content":"hello"}]}`)
			}
			postFeedback := func(session, spacedIDs string, wantStatus int, wantText string) {
				t.Helper()
				ids := strings.Fields(spacedIDs)
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

			// With limits.feedback = 3, a session has at most three entries. An entry with a repeated id replaces the
			// earlier entry, and a fourth id is refused.
			sendTurn(http.Header{"Precept-Session": {"alone"}})
			postFeedback("alone", "a", 202, "joined")
			postFeedback("alone", "b c", 202, "joined")
			postFeedback("alone", "d", 429, "limits.feedback")
			postFeedback("alone", "b", 202, "joined")
			postFeedback("alone", "c d a", 202, `{"id":"d","status":"refused","error":"the session or run already has`)

			postFeedback("later", "a b c", 202, "parked")
			postFeedback("later", "d", 429, "post the feedback again after the reply")
			postFeedback("later", "b", 202, "parked")
			sendTurn(http.Header{"Precept-Session": {"later"}})
			p.Eventually("the parked feedback, posted before the session began, to join the session", func() bool {
				_, b := harness.Get(t, p.AdminURL+"/api/health", "token")
				return strings.Contains(b, `"parked":0`)
			})
			postFeedback("later", "d", 429, "limits.feedback")

			// The limit for a run is also 3, so one of the four entries does not count for the run.
			for _, name := range []string{"m1", "m2", "m3", "m4"} {
				sendTurn(http.Header{"Precept-Session": {name}, "Precept-Run": {"r"}})
				postFeedback(name, "x", 202, "joined")
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
