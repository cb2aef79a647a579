package sample

import (
	"testing"

	"precept/wire"
)

// Of several calls with one id the latest without an answer gets it.
func TestResultsFindTheLatestOpenCall(t *testing.T) {
	h := &history{Session: &Session{}}
	h.steps, h.open = nil, nil
	for range 3 {
		h.open = map[string][]int{"": append(h.open[""], len(h.steps))}
		h.steps = append(h.steps, step{})
	}
	for _, text := range []string{"x", "y", "z", "nobody's"} {
		h.result(&wire.Result{Text: text})
	}
	if got := h.steps[0].text + h.steps[1].text + h.steps[2].text; got != "zyx" {
		t.Errorf("got %s", got)
	}
}
