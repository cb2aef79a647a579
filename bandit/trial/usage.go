package trial

// Usage is what the upstream says a session cost, in tokens. Input counts the cached tokens, too.
type Usage struct {
	Input  int64 `json:"in,omitempty"`
	Cached int64 `json:"cached,omitempty"`
}

// kilo keeps the sum of a long session within what a counter takes: tokens are counted in
// thousands, to the token.
const kilo = 1000

// Spent is what a session adds once, when it closes, about what it cost with a lesson and without.
// By the coins this is as causal as a reward: a lesson may shorten sessions, or break the
// upstream's prompt cache.
func (a *Assignment) Spent(u Usage) []Delta {
	if a.Excluded || u.Input <= 0 {
		return nil
	}
	var d Deltas
	spend := func(scope string, day int32, sessions, input, cached string) {
		d.Add(scope, sessions, day, 1)
		d.Add(scope, input, day, float64(u.Input)/kilo)
		d.Add(scope, cached, day, float64(min(u.Cached, u.Input))/kilo)
	}
	if b := bit(!a.Control); a.Enters() {
		spend("", a.Day, fBilled+b, fRead+b, fKept+b)
	}
	for i := range a.Picks {
		p := &a.Picks[i]
		if !(p.Eps > 0 && p.Eps < 1) {
			continue
		}
		b := bit(p.Injected)
		spend(string(p.Arm), 0, fSpent+b, fInput+b, fCached+b)
	}
	return d
}

// Spending is what the sessions of one arm cost of which the upstream told it.
type Spending struct {
	Sessions      int64
	Input, Cached float64 // tokens
}

// spending reads what stands together: sessions, input, cached.
func spending(v []int64) Spending {
	return Spending{max(0, whole(v[0])), max(0, real64(v[1])*kilo), max(0, real64(v[2])*kilo)}
}
