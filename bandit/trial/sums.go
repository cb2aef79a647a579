package trial

import (
	"slices"
	"sync"
)

// sums is one scope of the counters: an arm, or the tenant. mu guards all fields and is a leaf
// lock.
type sums struct {
	mu      sync.Mutex
	days    Rows[int32, [dailies]int64]
	total   [dailies]int64
	outlays Rows[int32, [outlays]int64] // global
	overall [overalls]int64
	bets    [2 * bets]int64 // W(+,k), then W(-,k)
	maxima  [maxima]int64
	strata  Rows[int64, [coinSums]int64] // by propensity, in millionths
	any     Rows[int64, [coinSums]int64] // global: coin "any pick was injected", by the probability of none

	models     Rows[string, [modelSums]int64] // of one arm, by the name of the model
	outcomes   [OutcomeCount][outcomeSums]int64
	surrogates [surrogates]int64

	narrowest float64 // smallest half-width that a caller computed; 0: none
}

// up and down return the bets on a lesson that helps and on a lesson that harms.
func (s *sums) up() []int64   { return s.bets[:bets] }
func (s *sums) down() []int64 { return s.bets[bets:] }

// add adds one delta and returns the place of the delta. The caller holds mu.
func (s *sums) add(d *Delta) (pos place, ok bool) {
	if sum, model, ok := readModelField(d.Key.Field); ok {
		s.models.At(model)[sum] += d.Value
		return place{modelSum, sum}, true
	}
	pos, eps, anything, ok := find(d.Key.Field)
	if !ok {
		return pos, false
	}
	switch pos.kind {
	case modelSum: // no name of the table
	case maximum:
		s.maxima[pos.index] = max(s.maxima[pos.index], d.Value)
	case daily, tenantDaily:
		if pos.kind == tenantDaily && d.Key.Scope != "" {
			return pos, false
		}
		s.days.At(d.Key.Day)[pos.index] += d.Value
		s.total[pos.index] += d.Value
	case outlay:
		if d.Key.Scope == "" {
			s.outlays.At(d.Key.Day)[pos.index] += d.Value
		}
	case overall:
		s.overall[pos.index] += d.Value
	case bet:
		s.bets[pos.index] += d.Value
	case observed:
		s.outcomes[pos.index/outcomeSums][pos.index%outcomeSums] += d.Value
	case surrogate:
		s.surrogates[pos.index] += d.Value
	case coins:
		rows := &s.strata
		if anything {
			rows = &s.any
		}
		rows.At(eps)[pos.index] += d.Value
	}
	return pos, true
}

func (s *sums) clone() *sums {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &sums{
		days: slices.Clone(s.days), total: s.total, outlays: slices.Clone(s.outlays),
		overall: s.overall, bets: s.bets, maxima: s.maxima,
		strata: slices.Clone(s.strata), any: slices.Clone(s.any), outcomes: s.outcomes, surrogates: s.surrogates,
		models: slices.Clone(s.models),
	}
}
