package bandit

import (
	"math"
)

// The half-life of evidence: 30,000 sessions of the tenant, in days. Without a discount half of the
// attainable gain is lost after the world has changed; a shorter one forgets what still holds.
const (
	halfLifeSessions = 30_000
	minHalfLife      = 7
	maxHalfLife      = 1000
)

// clock is a day with its discount. It is replaced, never changed.
type clock struct {
	stamp    uint64
	day      int32
	halfLife float64
	weights  []float64 // by age
}

// horizon is after how many half-lives a bucket counts for nothing (a thousandth). The table of
// weights is kept short: every tenant has one, and a quiet tenant's long half-life goes with few
// buckets.
const (
	horizon  = 10
	maxTable = 128
)

func newClock(stamp uint64, day int32, halfLife float64) *clock {
	if !(halfLife >= minHalfLife) {
		halfLife = minHalfLife
	}
	halfLife = math.Min(halfLife, maxHalfLife)
	t := &clock{stamp: stamp, day: day, halfLife: halfLife, weights: make([]float64, maxTable)}
	for age := range t.weights {
		t.weights[age] = math.Exp2(-float64(age) / halfLife)
	}
	return t
}

// weight of a bucket. A day in the future (another replica's midnight came first) counts in full.
func (t *clock) weight(day int32) float64 {
	age := int64(t.day) - int64(day)
	switch {
	case age <= 0:
		return 1
	case age < maxTable:
		return t.weights[age]
	case float64(age) > horizon*t.halfLife:
		return 0
	}
	return math.Exp2(-float64(age) / t.halfLife)
}
