//go:build !race

package bandit_test

import (
	"testing"
)

// A caution is a lesson that is shown as a warning, because sessions with the lesson failed more often. If Published is
// evaluated after each session, a lesson that does not harm rarely becomes a caution, even if it matches harder
// sessions than the model expects.
func TestCautionRarelyErrsAtEveryEvaluation(t *testing.T) {
	for name, tc := range map[string]struct {
		match, effect float64
		most, least   int
	}{
		"no effect":                     {0, 0, 2, 0},
		"no effect, in hard sessions":   {-0.2, 0, 2, 0},
		"no effect, in harder sessions": {-0.3, 0, 2, 0},
		"no effect, in easy sessions":   {0.2, 0, 2, 0},
		"helps, in hard sessions":       {-0.25, 0.08, 0, 0},
		"harms":                         {0, -0.35, 400, 380},
		"harms, in easy sessions":       {0.2, -0.35, 400, 380},
	} {
		if n := simulateCautions(tc.match, tc.effect); n > tc.most || n < tc.least {
			t.Errorf("%s: %d of 400 lessons became cautions, want %d to %d", name, n, tc.least, tc.most)
		}
	}
}
