package trial

import (
	"cmp"
	"math"
	"slices"
)

// FixedScale scales the integer counters: a counter holds millionths.
const FixedScale = 1_000_000

// Key names one of a tenant's counters. Scope is an arm, "x:" followed by a category, or "t:" followed by a planned
// trial. It is empty for the tenant as a whole.
type Key struct {
	Scope string
	Field string // see fields.go
	Day   int32  // session day for dated fields, otherwise 0
}

// Delta is an integer to add to a counter. If Key.Monotone is true, the counter is raised to the integer instead.
type Delta struct {
	Key   Key
	Value int64
}

// Compare orders counters by scope, field and day, which is the order in which stores list them.
func Compare(a, b Delta) int {
	return cmp.Or(cmp.Compare(a.Key.Scope, b.Key.Scope), cmp.Compare(a.Key.Field, b.Key.Field), cmp.Compare(a.Key.Day, b.Key.Day))
}

// IsArm reports whether a scope is an arm. Other scopes are empty or begin with a letter and a colon.
func IsArm(scope string) bool {
	return scope != "" && (len(scope) < 2 || scope[1] != ':')
}

// Fixed converts a number to millionths. It limits the number, so that a single wrong number cannot overflow a sum.
func Fixed(x float64) int64 {
	if math.IsNaN(x) {
		return 0
	}
	return int64(math.Round(clip(x, -1e6, 1e6) * FixedScale))
}

// Negate returns the deltas that undo ds exactly.
func Negate(ds []Delta) []Delta {
	out := slices.Clone(ds)
	for i := range out {
		out[i].Value = -out[i].Value
	}
	return out
}

// Round rounds to the precision of the counters, so that encoding does not change a record.
func Round(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return math.Round(x*FixedScale) / FixedScale
}

func clip(x, lo, hi float64) float64 { return math.Max(lo, math.Min(hi, x)) }

func fromFixed(v int64) float64 { return float64(v) / FixedScale }

func intFromFixed(v int64) int64 { return v / FixedScale }
