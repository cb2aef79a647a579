package trial

import (
	"slices"
	"sync"
)

// sums is one scope of the counters: an arm, or the tenant. mu guards all fields. The only lock that is taken under
// mu is Counters.poolMu.
type sums struct {
	mu     sync.Mutex
	rows   Table
	models []modelRow // of one arm, by the name of the model

	narrowest float64 // smallest half-width that a caller computed; 0 if none
}

// Groups of rows. A request reads the first two groups of each lesson that matches.
const (
	rowMaxima    uint8 = iota // running maxima
	rowTotal                  // sums of rowDays over all days
	rowOverall                // sums without a day
	rowBets                   // W(+,k), then W(-,k)
	rowSurrogate              // sums of the surrogate
	rowOutcomes               // by outcome
	rowStrata                 // by the probability of withholding, in millionths
	rowAny                    // global: coin "any pick was injected", by the probability of none
	rowDays                   // by day
	rowOutlays                // global: costs, by day
)

// row returns the values of a group that has one row.
func (s *sums) row(group uint8) [Columns]int64 { return s.rows.Row(group, 0) }

// up returns the bets on a lesson that helps.
func (s *sums) up() []int64 {
	v := s.row(rowBets)
	return v[:bets]
}

// down returns the bets on a lesson that harms.
func (s *sums) down() []int64 {
	v := s.row(rowBets)
	return v[bets : 2*bets]
}

// add adds deltas, and calls note with the place of each delta of a known field. The caller holds mu.
func (s *sums) add(ds []Delta, note func(d *Delta, pos place)) {
	s.rows.Change(func(row func(group uint8, at int64) *[Columns]int64) {
		for i := range ds {
			if pos, ok := s.addTo(row, &ds[i]); ok {
				note(&ds[i], pos)
			}
		}
	})
}

// addTo adds one delta to a row and returns the place of the delta. The caller holds mu.
func (s *sums) addTo(row func(group uint8, at int64) *[Columns]int64, d *Delta) (pos place, ok bool) {
	if sum, model, ok := readModelField(d.Key.Field); ok {
		s.model(model)[sum] += d.Value
		return place{modelSum, sum}, true
	}
	pos, eps, anyPick, ok := find(d.Key.Field)
	if !ok {
		return pos, false
	}
	switch pos.kind {
	case modelSum: // no name of the table
	case maximum:
		v := &row(rowMaxima, 0)[pos.index]
		*v = max(*v, d.Value)
	case daily, tenantDaily:
		if pos.kind == tenantDaily && d.Key.Scope != "" {
			return pos, false
		}
		row(rowDays, int64(d.Key.Day))[pos.index] += d.Value
		row(rowTotal, 0)[pos.index] += d.Value
	case outlay:
		if d.Key.Scope == "" {
			row(rowOutlays, int64(d.Key.Day))[pos.index] += d.Value
		}
	case overall:
		row(rowOverall, 0)[pos.index] += d.Value
	case bet:
		row(rowBets, 0)[pos.index] += d.Value
	case observed:
		row(rowOutcomes, int64(pos.index/outcomeSums))[pos.index%outcomeSums] += d.Value
	case surrogate:
		row(rowSurrogate, 0)[pos.index] += d.Value
	case coins:
		group := rowStrata
		if anyPick {
			group = rowAny
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
