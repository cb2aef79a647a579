package inject

import (
	"fmt"
	"strings"
	"testing"
)

// Some servers number the calls in each reply from zero, and some agents send only the newest steps. A block must stay
// at the result that triggered the lesson.
func TestBlockFollowsResultInSlidingWindow(t *testing.T) {
	const failed, window, steps = 3, 5, 12
	body := func(from, to int) []byte {
		b := `{"model":"m","messages":[{"role":"user","content":"Fix it."}`
		for i := from; i < to; i++ {
			out := fmt.Sprintf("listing %d", i)
			if i == failed {
				out = "Error: omega failed\\nExit code 2"
			}
			b += fmt.Sprintf(`,{"role":"assistant","content":null,"tool_calls":[{"id":"call_0","type":"function","function":{"name":"bash","arguments":"{\"command\":\"step %d\"}"}}]},{"role":"tool","tool_call_id":"call_0","content":"%s"}`, i, out)
		}
		return []byte(b + `]}`)
	}
	s := newTestSession(t, plainChat, injectAll(), newBook(activeLesson("on-error", "omega", "y")), "s")
	for n := 1; n <= steps; n++ {
		from := max(0, n-window)
		s.plan(body(from, n))
		s.endTurn()
		shown := false
		for _, m := range s.sent {
			if strings.Contains(m, "[on-error]") {
				shown = true
				if !strings.Contains(m, "omega failed") {
					t.Errorf("request with steps %d to %d: the block is at another result: %s", from, n-1, m)
				}
			}
		}
		if want := from <= failed && failed < n; want && !shown {
			t.Errorf("request with steps %d to %d: no block, want the block at the failed result", from, n-1)
		}
	}
}
