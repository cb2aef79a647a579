package bandit

const kilo = 1000

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
