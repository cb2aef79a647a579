package bandit

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
	var d deltas
	for i := range a.Picks {
		p := &a.Picks[i]
		if !(p.Eps > 0 && p.Eps < 1) {
			continue
		}
		arm, b := string(p.Arm), bit(p.Injected)
		d.add(arm, fSpent+b, 0, 1)
		d.add(arm, fInput+b, 0, float64(u.Input)/kilo)
		d.add(arm, fCached+b, 0, float64(min(u.Cached, u.Input))/kilo)
	}
	return d
}

// Spending is what the sessions of one arm cost of which the upstream told it.
type Spending struct {
	Sessions      int64
	Input, Cached float64 // tokens
}

func (a *arm) spending(b int) Spending {
	s := a.sum[iSpent+3*b : iSpent+3*b+3]
	return Spending{max(0, whole(s[0])), max(0, real64(s[1])*kilo), max(0, real64(s[2])*kilo)}
}

// spentField finds the place of "spent0", "input1" and so on, and of "refused1".
func spentField(f string) (int, bool) {
	if f == "" || f[len(f)-1] != '0' && f[len(f)-1] != '1' {
		return 0, false
	}
	if f[:len(f)-1] == fRefused {
		return iRefused + int(f[len(f)-1]-'0'), true
	}
	i := iSpent + 3*int(f[len(f)-1]-'0')
	switch f[:len(f)-1] {
	case fSpent:
		return i, true
	case fInput:
		return i + 1, true
	case fCached:
		return i + 2, true
	}
	return 0, false
}
