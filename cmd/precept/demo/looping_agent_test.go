package demo

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestLoopingAgentStopsAtFirstWarning(t *testing.T) {
	for _, tc := range []struct {
		warnAfter int   // tool results before the warning, or 0 for no warning
		stopped   int64 // loops that a warning ended
		calls     int64 // tool calls before the warning
		results   int   // tool results in the last request to the model
	}{{0, 0, 0, maxLoopCalls}, {3, 1, 3, 3}} {
		model, scores, results := NewUpstream(NewWorld(1)), []string{}, 0
		server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			text := string(body)
			if r.URL.Path == "/v1/feedback" {
				scores = append(scores, text)
				return
			}
			results = strings.Count(text, `"role":"tool"`)
			if tc.warnAfter > 0 && results == tc.warnAfter {
				text = strings.Replace(text, loopTicketPrefix, "[LOOP DETECTED] "+loopTicketPrefix, 1)
			}
			r.Body = io.NopCloser(strings.NewReader(text))
			model.ServeHTTP(rw, r)
		}))
		f := &Fleet{World: NewWorld(1), BaseURL: server.URL + "/v1", Client: server.Client()}
		err := f.runLoopingAgent(context.Background(), 200)
		server.Close()
		stopped, calls := f.StoppedLoops()
		if err != nil || stopped != tc.stopped || calls != tc.calls || results != tc.results {
			t.Errorf("warnAfter = %d: got %d loops ended by a warning, %d calls before the warning, %d tool results in the last request, error %v; want %d loops, %d calls, %d tool results, no error", tc.warnAfter, stopped, calls, results, err, tc.stopped, tc.calls, tc.results)
		}
		good := strings.Contains(strings.Join(scores, " "), `"score":1`)
		if len(scores) != 1 || good != (tc.stopped == 1) {
			t.Errorf("warnAfter = %d: got feedback %q, want one entry, which has score 1 only if there was a warning", tc.warnAfter, scores)
		}
	}
}
