//go:build !race

package bandit_test

import (
	"testing"
)

// A caution is a lesson shown as a warning. CautionEvidence is checked after each session, and a lesson may match
// easier or harder sessions than the chooser expects.
func TestOnlyHarmfulLessonsBecomeCautions(t *testing.T) {
	for name, tc := range map[string]struct {
		match, effect            float64
		maxCautions, minCautions int
	}{
		"no effect":                     {0, 0, 2, 0},
		"no effect, in hard sessions":   {-0.2, 0, 2, 0},
		"no effect, in harder sessions": {-0.3, 0, 2, 0},
		"no effect, in easy sessions":   {0.2, 0, 2, 0},
		"helps, in hard sessions":       {-0.25, 0.08, 0, 0},
		"harms":                         {0, -0.35, 400, 380},
		"harms, in easy sessions":       {0.2, -0.35, 400, 380},
	} {
		if n := simulateCautions(tc.match, tc.effect); n > tc.maxCautions || n < tc.minCautions {
			t.Errorf("%s: %d/400 lessons became cautions, want %d to %d", name, n, tc.minCautions, tc.maxCautions)
		}
	}
}
