package trial

// Usage is a session's cost in tokens, as reported by the upstream. Input includes Cached.
type Usage struct {
	Input  int64 `json:"in,omitempty"`
	Cached int64 `json:"cached,omitempty"`
}

// kilo scales token counters to thousands, because Fixed limits a number to a million.
const kilo = 1000

// CostDeltas returns the deltas (changes to counters) for a session's cost when it closes. The cost shows whether a
// lesson shortens sessions or breaks the upstream's prompt cache.
func (a *Assignment) CostDeltas(u Usage) []Delta {
	if a.Excluded || u.Input <= 0 {
		return nil
	}
	var d Deltas
	spend := func(scope string, day int32, sessions, input, cached string) {
		d.Add(scope, sessions, day, 1)
		d.Add(scope, input, day, float64(u.Input)/kilo)
		d.Add(scope, cached, day, float64(min(u.Cached, u.Input))/kilo)
	}
	if b := armDigit(!a.Control); a.InComparison() {
		spend("", a.Day, fBilled+b, fBilledInput+b, fBilledCached+b)
	}
	for i := range a.Picks {
		p := &a.Picks[i]
		if !(p.Eps > 0 && p.Eps < 1) {
			continue
		}
		b := armDigit(p.Injected)
		spend(string(p.Arm), 0, fSpent+b, fInput+b, fCached+b)
	}
	return d
}

// Spending is the cost of the sessions whose usage the upstream reported.
type Spending struct {
	Sessions      int64
	Input, Cached float64 // tokens
}

func spending(v []int64) Spending {
	return Spending{max(0, intFromFixed(v[0])), max(0, fromFixed(v[1])*kilo), max(0, fromFixed(v[2])*kilo)}
}
