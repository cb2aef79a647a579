package bandit

// The category's fields among the early ones.
const earlyCN, earlyCS = iN1, iS1

// Early is what an open session adds to the chooser's evidence before it closes. It must be taken
// back, with Forget, before the session's own deltas are added.
type Early struct {
	parts  []part
	trials []string // scopes
	told   bool
}

type part struct {
	scope string
	field int
	value int64
}

// Foresee lets the chooser, and it alone, learn from the reward that an open session has at this
// moment: the posteriors and the baselines move, no number of the report does. The report must not:
// counted when they are told, sessions that end sooner count first, and a lesson that makes them
// end sooner seems to help. For the chooser the error is small and passes when the session closes,
// while not to know anything of the last day costs it a fifth of the attainable gain.
func (c *Chooser) Foresee(a *Assignment, y float64, tier int) Early {
	ds := Contribution(a, y, tier)
	e := Early{told: len(ds) > 0}
	for _, d := range ds {
		if f, ok := earlyField(d); ok {
			e.parts = append(e.parts, part{d.Scope, f, d.Value})
		}
	}
	for _, d := range a.Looked("", y) {
		e.trials = append(e.trials, d.Scope)
	}
	c.early(e, 1)
	return e
}

// Forget takes an open session's evidence back.
func (c *Chooser) Forget(e Early) { c.early(e, -1) }

// Told says that the session had a reward.
func (e Early) Told() bool { return e.told }

func (c *Chooser) early(e Early, sign int64) {
	for _, scope := range e.trials {
		t := c.trial(scope, true)
		t.mu.Lock()
		t.open += sign
		t.mu.Unlock()
	}
	for _, p := range e.parts {
		a := c.scope(p.scope, true)
		a.mu.Lock()
		a.early[p.field] += sign * p.value
		a.stamp = 0
		a.mu.Unlock()
	}
}

// Inherit takes over what is known in this process alone, when counters were read anew: what open
// sessions have told, and how the evidence stood earlier.
func (c *Chooser) Inherit(from *Chooser) {
	from.mu.RLock()
	defer from.mu.RUnlock()
	take := func(scope string, a *arm) {
		a.mu.Lock()
		early, known, narrowest := a.early, marks{append([]standing(nil), a.marks.list...), a.marks.every}, a.narrowest
		a.mu.Unlock()
		if early == ([chosen]int64{}) && len(known.list) == 0 && narrowest == 0 {
			return
		}
		b := c.scope(scope, true)
		b.mu.Lock()
		b.early, b.marks, b.narrowest, b.stamp = early, known, narrowest, 0
		b.mu.Unlock()
	}
	for k, a := range from.arms {
		take(string(k), a)
	}
	for scope, a := range from.cats {
		take(scope, a)
	}
	for scope, old := range from.trials {
		old.mu.Lock()
		open := old.open
		old.mu.Unlock()
		if open != 0 {
			t := c.trial(scope, true)
			t.mu.Lock()
			t.open = open
			t.mu.Unlock()
		}
	}
}

// earlyField is the place of a delta that the chooser reads.
func earlyField(d Delta) (int, bool) {
	switch {
	case d.Scope == "":
		return 0, false
	case d.Field == fCN:
		return earlyCN, true
	case d.Field == fCS:
		return earlyCS, true
	}
	f, ok := datedField(d.Field)
	return f, ok && f < chosen
}
