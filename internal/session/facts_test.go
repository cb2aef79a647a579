package session_test

import (
	"testing"
	"time"

	"precept/internal/sample"
	"precept/internal/session"
)

// When a client repeats a failed request, the turn and its errors count once, and the tokens of each reply count.
func TestFactsCountARepeatedTurnOnce(t *testing.T) {
	t.Parallel()
	var f session.Facts
	add := func(turn, failed int) {
		x := sample.Exchange{Turn: turn, At: time.Unix(int64(turn), 0)}
		x.Reply.OutputTokens = 10
		if failed > 0 {
			x.Verdicts = &sample.Verdicts{Results: failed, Failed: make([]int, failed)}
		}
		f.Add(&x)
	}
	add(1, 0)
	add(2, 2)
	add(2, 2)
	add(2, 2)
	add(3, 1)
	add(2, 2) // a late attempt
	if f.Turns != 3 || f.Errors != 3 || f.Output != 60 || f.Newest != 3 {
		t.Errorf("the facts are %+v, want 3 turns, 3 errors and 60 tokens", f)
	}
}
