package bandit

import (
	"math"
)

// The evidence half-life is the number of days in which the tenant closes 30,000 sessions. Without a discount, half the
// attainable gain is lost after the true effects change. A shorter half-life forgets valid evidence.
const (
	halfLifeSessions = 30_000
	minHalfLife      = 7    // days
	maxHalfLife      = 1000 // days
)

// ageWeights holds the weights of evidence by age, as of one day. An ageWeights value is replaced, never changed.
type ageWeights struct {
	stamp    uint64 // differs for each ageWeights of a chooser
	day      int32
	halfLife float64   // days
	weights  []float64 // by age in days
}

// Evidence older than maxHalfLives half-lives has no weight; the exact weight would be below a thousandth. The weight
// table covers only weightTableDays days, because every tenant has a table.
const (
	maxHalfLives    = 10
	weightTableDays = 128
)

func newAgeWeights(stamp uint64, day int32, halfLife float64) *ageWeights {
	if !(halfLife >= minHalfLife) {
		halfLife = minHalfLife
	}
	halfLife = math.Min(halfLife, maxHalfLife)
	t := &ageWeights{stamp: stamp, day: day, halfLife: halfLife, weights: make([]float64, weightTableDays)}
	for age := range t.weights {
		t.weights[age] = math.Exp2(-float64(age) / halfLife)
	}
	return t
}

// weight returns the weight for a day's evidence. A day in the future has full weight. It occurs if midnight came first
// on another replica.
func (c *ageWeights) weight(day int32) float64 {
	age := int64(c.day) - int64(day)
	switch {
	case age <= 0:
		return 1
	case age < weightTableDays:
		return c.weights[age]
	case float64(age) > maxHalfLives*c.halfLife:
		return 0
	}
	return math.Exp2(-float64(age) / c.halfLife)
}
