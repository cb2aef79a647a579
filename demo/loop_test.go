package demo

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// An agent that insists gives up in the end, and goes another way at the first warning.
func TestInsist(t *testing.T) {
	for _, c := range []struct {
		warnAfter int // results; 0: nobody warns
		want      Loops
	}{{0, Loops{Missed: 1}}, {3, Loops{Caught: 1, Calls: 3}}} {
		model, scores := NewUpstream(NewWorld(1)), []string{}
		server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			text := string(body)
			if r.URL.Path == "/v1/feedback" {
				scores = append(scores, text)
				return
			}
			if c.warnAfter > 0 && strings.Count(text, `"role":"tool"`) == c.warnAfter {
				text = strings.Replace(text, loopMark, "[LOOP DETECTED] "+loopMark, 1)
			}
			r.Body = io.NopCloser(strings.NewReader(text))
			model.ServeHTTP(rw, r)
		}))
		f := &Fleet{World: NewWorld(1), BaseURL: server.URL + "/v1", Client: server.Client()}
		err := f.insist(context.Background(), 200)
		server.Close()
		if err != nil || f.Loops() != c.want {
			t.Errorf("warned after %d results: %+v, %v, want %+v", c.warnAfter, f.Loops(), err, c.want)
		}
		good := strings.Contains(strings.Join(scores, " "), `"score":1`)
		if len(scores) != 1 || good != (c.want.Caught == 1) {
			t.Errorf("warned after %d results, the user said %q", c.warnAfter, scores)
		}
	}
}

func TestNews(t *testing.T) {
	var n Milestones
	rows := someTable()
	first := n.Of(1500, rows, Loops{Caught: 2, Calls: 3})
	for i, want := range []string{
		"after 1500 sessions: a loop is caught: 3 equal calls failed alike",
		"after 1500 sessions: a first effect: reproduce-before-fixing +20.5 points (+11.0 to +29.5)",
		"after 1500 sessions: reproduce-before-fixing is proven to help, by +20.5 points",
		"after 1500 sessions: restart-the-service-first harms, by -16.0 points",
	} {
		if i >= len(first) || !strings.HasPrefix(first[i], want) {
			t.Errorf("line %d of %q, want %q", i, first, want)
		}
	}
	if again := n.Of(1600, rows, Loops{Caught: 9, Calls: 3}); len(first) != 4 || len(again) != 0 {
		t.Errorf("%d lines, and then once more %q", len(first), again)
	}
	rows.Rows["add-more-comments"] = Row{Verdict: "benched"}
	if more := n.Of(1700, rows, Loops{}); len(more) != 1 || !strings.Contains(more[0], "add-more-comments is benched") {
		t.Errorf("%q", more)
	}
}
