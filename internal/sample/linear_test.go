//go:build !race

package sample_test

import (
	"fmt"
	"testing"
	"time"

	"precept/internal/sample"
)

// sessionWithFailedCalls returns a session with n failed and then n successful calls.
func sessionWithFailedCalls(n int) sample.Session {
	s := newScript()
	items := []string{messageJSON("user", "go on")}
	for _, half := range []string{"a", "b"} {
		for i := range n {
			id := fmt.Sprintf("%s%d", half, i)
			items = append(items, fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":%q,"type":"function","function":{"name":"t","arguments":"{\"%s\":\"%s\"}"}}]}`, id, id, id+"x"))
		}
		for i := range n {
			items = append(items, resultJSON(fmt.Sprintf("%s%d", half, i), half))
		}
	}
	s.addTurn(sample.Reply{Text: "done"}, items...)
	s.session.IsFailure = func(_, _, text string, _ int8) bool { return text == "a" }
	return s.session
}

func TestBuildTimeIsLinear(t *testing.T) {
	if testing.Short() {
		t.Skip("the test measures times")
	}
	const n, times, allowed = 1000, 4, 8
	buildTime := func(n int) time.Duration {
		s := sessionWithFailedCalls(n)
		shortest := time.Duration(1 << 62)
		for range 3 {
			begin := time.Now() //nolint:forbidigo // the test measures the ratio of two times
			sample.Build(s)
			shortest = min(shortest, time.Since(begin)) //nolint:forbidigo // as above
		}
		return shortest
	}
	var small, large time.Duration
	for range 6 {
		if small, large = buildTime(n), buildTime(times*n); large <= allowed*small+5*time.Millisecond {
			return
		}
	}
	t.Errorf("Build took %v for %d calls and %v for %d, want at most %d times as long", small, n, large, times*n, allowed)
}
