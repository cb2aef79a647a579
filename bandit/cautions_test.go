//go:build !race

package bandit_test

import (
	"testing"
)

// A caution is a lesson that is shown as a warning. The test checks CautionEvidence after each session. A lesson may
// match easier or harder sessions than the chooser expects, but only a harmful lesson must become a caution.
func TestOnlyHarmfulLessonsBecomeCautions(t *testing.T) {
	for name, tc := range map[string]struct {
		match, effect            float64
		maxCautions, minCautions int
	}{
		"no effect":                     {maxCautions: 2},
		"no effect, in hard sessions":   {match: -0.2, maxCautions: 2},
		"no effect, in harder sessions": {match: -0.3, maxCautions: 2},
		"no effect, in easy sessions":   {match: 0.2, maxCautions: 2},
		"helps, in hard sessions":       {match: -0.25, effect: 0.08},
		"harms":                         {effect: -0.35, maxCautions: 400, minCautions: 380},
		"harms, in easy sessions":       {match: 0.2, effect: -0.35, maxCautions: 400, minCautions: 380},
	} {
		if n := simulateCautions(tc.match, tc.effect); n > tc.maxCautions || n < tc.minCautions {
			t.Errorf("%s: lessons that became cautions: got %d of 400, want %d to %d", name, n, tc.minCautions, tc.maxCautions)
		}
	}
}
