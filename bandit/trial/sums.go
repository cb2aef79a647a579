package trial

import (
	"slices"
	"sync"
)

// sums is one scope in the counters: an arm, or the tenant. mu guards all fields. The only lock taken while mu is held
// is Counters.poolMu.
type sums struct {
	mu     sync.Mutex
	rows   Table
	models []modelRow // for an arm, by model name

	narrowest float64 // smallest half-width that a caller computed; 0 if none
}

// Row groups. A request reads the first two groups for each matching lesson.
const (
	rowMaxima    uint8 = iota // running maxima
	rowTotal                  // sum of rowDays over all days
	rowOverall                // sums without a day
	rowBets                   // sums for the e-values, by bet size: first for help, then for harm
	rowSurrogate              // surrogate sums
	rowOutcomes               // by outcome
	rowStrata                 // by withholding probability, in millionths
	rowAnyPick                // global: strata in AllSessions.AnyInjected
	rowDays                   // by day
	rowCosts                  // global: costs, by day
)

func (s *sums) row(group uint8) [Columns]int64 { return s.rows.Row(group, 0) }

func (s *sums) betsOnHelp() []int64 {
	v := s.row(rowBets)
	return v[:betCount]
}

func (s *sums) betsOnHarm() []int64 {
	v := s.row(rowBets)
	return v[betCount : 2*betCount]
}

// add adds deltas, and calls note for each delta with a known field. The caller holds mu.
func (s *sums) add(ds []Delta, note func(d *Delta, pos position)) {
	s.rows.Change(func(row func(group uint8, at int64) *[Columns]int64) {
		for i := range ds {
			if pos, ok := s.addTo(row, &ds[i]); ok {
				note(&ds[i], pos)
			}
		}
	})
}

// The caller holds mu.
func (s *sums) addTo(row func(group uint8, at int64) *[Columns]int64, d *Delta) (pos position, ok bool) {
	if sum, model, ok := readModelField(d.Key.Field); ok {
		s.model(model)[sum] += d.Value
		return position{modelSum, sum}, true
	}
	pos, eps, anyPick, ok := findPosition(d.Key.Field)
	if !ok {
		return pos, false
	}
	switch pos.kind {
	case modelSum: // no name in the table
	case runningMaximum:
		v := &row(rowMaxima, 0)[pos.index]
		*v = max(*v, d.Value)
	case daily, tenantDaily:
		if pos.kind == tenantDaily && d.Key.Scope != "" {
			return pos, false
		}
		row(rowDays, int64(d.Key.Day))[pos.index] += d.Value
		row(rowTotal, 0)[pos.index] += d.Value
	case dailyCost:
		if d.Key.Scope == "" {
			row(rowCosts, int64(d.Key.Day))[pos.index] += d.Value
		}
	case overallSum:
		row(rowOverall, 0)[pos.index] += d.Value
	case betSum:
		row(rowBets, 0)[pos.index] += d.Value
	case outcomeSum:
		row(rowOutcomes, int64(pos.index/outcomeSumCount))[pos.index%outcomeSumCount] += d.Value
	case surrogateSum:
		row(rowSurrogate, 0)[pos.index] += d.Value
	case stratumSum:
		group := rowStrata
		if anyPick {
			group = rowAnyPick
		}
		row(group, eps)[pos.index] += d.Value
	}
	return pos, true
}

func (s *sums) clone() *sums {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &sums{rows: s.rows, models: slices.Clone(s.models)}
}
