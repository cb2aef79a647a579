package trial

import (
	"cmp"
	"math"
	"slices"
)

// One is what the integer counters count in: millionths.
const One = 1_000_000

// Key names one counter of a tenant. Scope is an arm, "" for the global ones, "x:"+category for a
// baseline.
type Key struct {
	Scope string
	Field string // see fields.go
	Day   int32  // the session's day for dated fields, 0 for the others
}

// Delta is one integer to add to a counter (or, when Key.Monotone, to raise it to).
type Delta struct {
	Key
	Value int64
}

// Compare is the order in which stores list counters: by scope, field and day.
func Compare(a, b Delta) int {
	return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Day, b.Day))
}

// OfArm says whether a scope is that of an arm: not the tenant's own, and none that begins with a
// mark, which is a letter and a colon.
func OfArm(scope string) bool {
	return scope != "" && (len(scope) < 2 || scope[1] != ':')
}

// Fixed turns a number into millionths. The bound keeps a wild number from overflowing a sum for
// ever.
func Fixed(x float64) int64 {
	if math.IsNaN(x) {
		return 0
	}
	return int64(math.Round(clip(x, -1e6, 1e6) * One))
}

// Negate undoes deltas, exactly: they are integers.
func Negate(ds []Delta) []Delta {
	out := slices.Clone(ds)
	for i := range out {
		out[i].Value = -out[i].Value
	}
	return out
}

// Round rounds to what the counters can hold. Frozen numbers are rounded once, so that a record
// reads the same after a round trip through any encoding, and short records stay short.
func Round(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return math.Round(x*One) / One
}

func clip(x, lo, hi float64) float64 { return math.Max(lo, math.Min(hi, x)) }

func real64(v int64) float64 { return float64(v) / One }

func whole(v int64) int64 { return v / One }
