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
	for i := range a.Picks {
		p := &a.Picks[i]
		if !(p.Eps > 0 && p.Eps < 1) {
			continue
		}
		arm, b := string(p.Arm), bit(p.Injected)
		d.Add(arm, fSpent+b, 0, 1)
		d.Add(arm, fInput+b, 0, float64(u.Input)/kilo)
		d.Add(arm, fCached+b, 0, float64(min(u.Cached, u.Input))/kilo)
	}
	return d
}

// Spending is what the sessions of one arm cost of which the upstream told it.
type Spending struct {
	Sessions      int64
	Input, Cached float64 // tokens
}

func (s *sums) spending(b int) Spending {
	v := s.overall[iSpent+3*b : iSpent+3*b+3]
	return Spending{max(0, whole(v[0])), max(0, real64(v[1])*kilo), max(0, real64(v[2])*kilo)}
}
