//go:build !race

package bandit_test

import (
	"testing"
)

// With an evaluation after each session, a lesson rarely becomes a caution unless the lesson harms, also if the
// lesson matches harder sessions than the model expects. A caution is permanent.
func TestCautionRarelyErrsAtEveryEvaluation(t *testing.T) {
	for name, k := range map[string]struct {
		match, effect float64
		most, least   int
	}{
		"nothing":                     {0, 0, 2, 0},
		"nothing, in hard sessions":   {-0.2, 0, 2, 0},
		"nothing, in harder sessions": {-0.3, 0, 2, 0},
		"nothing, in easy sessions":   {0.2, 0, 2, 0},
		"help, in hard sessions":      {-0.25, 0.08, 0, 0},
		"harm":                        {0, -0.35, 400, 380},
		"harm, in easy sessions":      {0.2, -0.35, 400, 380},
	} {
		if n := cautionsOf(k.match, k.effect); n > k.most || n < k.least {
			t.Errorf("%s: %d of 400 lessons became cautions, want %d to %d", name, n, k.least, k.most)
		}
	}
}
