package bandit

import (
	"math"
	"strings"
	"sync"

	"precept/trial"
)

// Chooser is one tenant's counts in memory, and the Beliefs that follow from them. It is safe for
// concurrent use: Decide reads it on the request path while a recorder adds to it.
//
// Lock order: Chooser.mu, then one arm.mu. Chooser.mu is held for writing only to add a scope or
// to swap clock or priors, so a request never waits for more than a map insert or the six sums of
// one arm.
type Chooser struct {
	mu     sync.RWMutex
	arms   map[Arm]*arm
	slugs  map[string][]Arm // the texts that a lesson has had
	cats   map[string]*arm  // by scope
	trials map[string]*planned
	global *arm
	clock  *clock
	priors Priors

	dirtyMu sync.Mutex
	dirty   map[Arm]struct{} // changed since Maxima last looked
}

// New has no evidence, the default priors, and counts everything in full until Advance or
// Maxima says what day it is.
func New() *Chooser {
	return &Chooser{
		arms: map[Arm]*arm{}, slugs: map[string][]Arm{}, cats: map[string]*arm{}, trials: map[string]*planned{}, global: &arm{}, dirty: map[Arm]struct{}{},
		clock: newClock(1, math.MinInt32, minHalfLife), priors: DefaultPriors(),
	}
}

// Add takes deltas in: of one session, or all that a store holds. Monotone ones among them are
// merged by maximum.
func (c *Chooser) Add(ds []Delta) {
	for len(ds) > 0 {
		n := 1 // the deltas of one scope go in together, so that no reader sees a count without its sum
		for n < len(ds) && ds[n].Scope == ds[0].Scope {
			n++
		}
		c.addScope(ds[0].Scope, ds[:n])
		ds = ds[n:]
	}
}

func (c *Chooser) addScope(name string, ds []Delta) {
	if strings.HasPrefix(name, trialMark) {
		c.enter(name, ds)
		return
	}
	a := c.scope(name, true)
	bet := false
	a.mu.Lock()
	for _, d := range ds {
		a.add(d)
		_, _, ok := betField(d.Field)
		bet = bet || ok
	}
	a.mark()
	a.mu.Unlock()
	if bet {
		c.dirtyMu.Lock()
		c.dirty[Arm(name)] = struct{}{}
		c.dirtyMu.Unlock()
	}
}

// Raise merges maxima that others found.
func (c *Chooser) Raise(maxima []Delta) {
	for _, d := range maxima {
		if d.Monotone() {
			c.addScope(d.Scope, []Delta{d})
		}
	}
}

// scope finds the counters of a scope; with create it makes what is missing.
func (c *Chooser) scope(name string, create bool) *arm {
	if name == "" {
		return c.global
	}
	c.mu.RLock()
	a := c.find(name)
	c.mu.RUnlock()
	if a != nil || !create {
		return a
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if a = c.find(name); a != nil {
		return a
	}
	a = &arm{}
	if isCategory(name) {
		c.cats[name] = a
	} else {
		c.arms[Arm(name)] = a
		c.link(Arm(name))
	}
	return a
}

// link keeps the texts of a lesson findable by its slug. The caller holds mu.
func (c *Chooser) link(k Arm) {
	slug := k.Slug()
	c.slugs[slug] = append(c.slugs[slug], k)
}

func (c *Chooser) find(name string) *arm {
	if isCategory(name) {
		return c.cats[name]
	}
	return c.arms[Arm(name)]
}

func isCategory(scope string) bool { return len(scope) > 1 && scope[0] == 'x' && scope[1] == ':' }

// Posterior is what the chooser believes of a candidate's arm, today.
func (c *Chooser) Posterior(k Candidate) Posterior { return c.posterior(k, (*arm).discounted, true) }

// Counted is what the counters alone make one believe: the same on every replica, after a restart,
// and whatever the order in which rewards were told. The chooser's own belief knows more: what open
// sessions told, and a turn within a day.
func (c *Chooser) Counted(k Candidate) Posterior { return c.posterior(k, (*arm).counted, false) }

// reading is one of the two ways to read an arm's evidence.
type reading func(*arm, *clock) evidence

func (c *Chooser) posterior(k Candidate, known reading, chooses bool) Posterior {
	c.mu.RLock()
	defer c.mu.RUnlock()
	mu0 := c.prior(k, known)
	var e evidence
	var proven, settled, reached bool
	if a := c.arms[k.Arm]; a != nil {
		a.mu.Lock()
		e, proven, settled, reached = known(a, c.clock), a.provenAt > 0, a.settled(), a.reached(k.Until)
		a.mu.Unlock()
	}
	if k.Trial != "" {
		reached = reached || c.trials[trial.LookScope(k.Arm, k.Trial)].ended(trial.Planned(k.Trial), chooses)
	}
	b := c.priors.update(e, mu0)
	return Posterior{
		Mean: b.m, Var: b.v, Match: b.del, Proven: proven, Reached: reached, Probe: b.benched(),
		Leaning: b.leaning(), Trusted: b.trusted(), Settled: settled,
	}
}

// Baseline is the sessions of a category and the sum of their rewards less what lessons explain.
func (c *Chooser) Baseline(category string) (n, sum float64) {
	c.mu.RLock()
	a := c.cats[categoryScope(category)]
	c.mu.RUnlock()
	if a == nil {
		return 0, 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return float64(a.sum[iCN]+a.early[earlyCN]) / Unit, float64(a.sum[iCS]+a.early[earlyCS]) / Unit
}

// RawCounts are the rewards of the sessions that had the lesson, as successes and failures.
func (c *Chooser) RawCounts(k Arm) (successes, failures float64) {
	a := c.scope(string(k), false)
	if a == nil {
		return 0, 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return math.Max(0, float64(a.sum[iY1])/Unit), math.Max(0, float64(a.sum[iM1]-a.sum[iY1])/Unit)
}
