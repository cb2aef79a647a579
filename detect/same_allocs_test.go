//go:build !race

package detect_test

import (
	"testing"

	"precept/detect"
	"precept/internal/wire"
)

func TestLoopsAllocationsDoNotGrow(t *testing.T) {
	allocs := func(n int) float64 {
		raw, runs := failuresBody(t, n), 5
		reqs := make([]*wire.Request, runs+1)
		for i := range reqs {
			reqs[i] = parse(t, wire.Chat, raw)
		}
		next := 0
		return testing.AllocsPerRun(runs, func() {
			if l := new(detect.Results).Loops(reqs[next], nil, nil); len(l) != 0 {
				t.Errorf("Loops = %+v, want none", l)
			}
			next++
		})
	}
	if few, many := allocs(100), allocs(200); many > 1.1*few {
		t.Errorf("Loops allocations: %.0f after 100 failures and %.0f after 200, want at most 10%% more", few, many)
	}
}
