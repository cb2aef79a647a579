package bandit

import (
	"math"
	"slices"
	"sync"
	"time"

	"precept/trial"
)

// Chooser is what lessons of one tenant are chosen by: the counters that its sessions filled, and
// the Beliefs that follow from them. It is safe for concurrent use: Decide reads it on the request
// path while a recorder adds to it.
//
// Lock order: Chooser.mu, then one arm.mu. Chooser.mu is held for writing only to add a scope or a
// few numbers, or to swap clock or priors, so a request never waits for more than a map insert or
// the six sums of one arm. The trial's own locks are taken under neither.
type Chooser struct {
	measured *trial.Counters

	mu     sync.RWMutex
	arms   map[trial.Arm]*arm
	slugs  map[string][]trial.Arm // the texts that a lesson has had
	cats   map[string]*baseline   // by scope
	open   map[string]int64       // told picks of open sessions, by the scope of their planned trial
	tenant [ofATenant]int64
	clock  *clock
	priors Priors
}

// baseline is what the sessions of a category did, less what lessons explain.
type baseline struct {
	v, provisional [ofABaseline]int64
}

// New has no evidence, the default priors, and counts everything in full until Advance or Maxima
// says what day it is.
func New() *Chooser { return over(trial.NewCounters()) }

func over(measured *trial.Counters) *Chooser {
	return &Chooser{
		measured: measured, arms: map[trial.Arm]*arm{}, slugs: map[string][]trial.Arm{},
		cats: map[string]*baseline{}, open: map[string]int64{},
		clock: newClock(1, math.MinInt32, minHalfLife), priors: DefaultPriors(),
	}
}

// Measured is what the coins have shown: all that a report may rest on.
func (c *Chooser) Measured() *trial.Counters { return c.measured }

// Add takes deltas in, for the trial and for the chooser: of one session (Contribution), or all
// that a store holds. Monotone ones among them are merged by maximum.
func (c *Chooser) Add(ds []trial.Delta) {
	c.measured.Add(ds)
	for len(ds) > 0 {
		n := trial.Together(ds)
		c.addScope(ds[0].Scope, ds[:n])
		ds = ds[n:]
	}
}

// Maxima says what day it is, and returns the running maxima that rose (trial.Counters.Maxima): a
// recorder that calls it after each batch needs no clock work of its own.
func (c *Chooser) Maxima(now time.Time) []trial.Delta {
	c.Today(now)
	return c.measured.Maxima(now)
}

func (c *Chooser) addScope(scope string, ds []trial.Delta) {
	known := func(d trial.Delta) bool {
		_, ok := find(&d)
		return ok
	}
	switch of := ownerOf(scope); of {
	case nobody:
	case ofArm:
		if a := c.arm(trial.Arm(scope), slices.ContainsFunc(ds, known)); a != nil {
			a.add(ds)
		}
	default:
		c.mu.Lock()
		defer c.mu.Unlock()
		into := c.tenant[:]
		if of == ofCategory {
			into = c.category(scope).v[:]
		}
		for i := range ds {
			if at, ok := find(&ds[i]); ok {
				into[at.at] += ds[i].Value
			}
		}
	}
}

// arm finds what is known of an arm; with create it makes what is missing.
func (c *Chooser) arm(k trial.Arm, create bool) *arm {
	c.mu.RLock()
	a := c.arms[k]
	c.mu.RUnlock()
	if a != nil || !create {
		return a
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if a = c.arms[k]; a == nil {
		a = &arm{}
		c.arms[k] = a
		c.link(k)
	}
	return a
}

// link keeps the texts of a lesson findable by its slug. The caller holds mu.
func (c *Chooser) link(k trial.Arm) {
	slug := k.Slug()
	c.slugs[slug] = append(c.slugs[slug], k)
}

// category finds a baseline, or makes it. The caller holds mu.
func (c *Chooser) category(scope string) *baseline {
	b := c.cats[scope]
	if b == nil {
		b = &baseline{}
		c.cats[scope] = b
	}
	return b
}

// Posterior is what the chooser believes of an action's arm, today.
func (c *Chooser) Posterior(k Action) Posterior { return c.posterior(k, (*arm).discounted, true) }

// Counted is what the counters alone make one believe: the same on every replica, after a restart,
// and whatever the order in which rewards were told. The chooser's own belief knows more: what open
// sessions told, and a change point within a day.
func (c *Chooser) Counted(k Action) Posterior { return c.posterior(k, (*arm).counted, false) }

// reading is one of the two ways to read an arm's evidence.
type reading func(*arm, *clock) evidence

func (c *Chooser) posterior(k Action, known reading, chooses bool) Posterior {
	var open int64
	if chooses && k.Trial != "" {
		c.mu.RLock()
		open = c.open[trial.LookScope(k.Arm, k.Trial)]
		c.mu.RUnlock()
	}
	far := c.measured.Progress(k.Arm, k.Until, k.Trial, open)
	c.mu.RLock()
	defer c.mu.RUnlock()
	mu0 := c.prior(k, known)
	var e evidence
	if a := c.arms[k.Arm]; a != nil {
		a.mu.Lock()
		e = known(a, c.clock)
		a.mu.Unlock()
	}
	b := c.priors.update(e, mu0)
	return Posterior{
		Mean: b.m, Var: b.v, Match: b.del, Proven: far.Proven, Reached: far.Reached,
		Probe:   b.benched(),
		Leaning: b.leaning(), Trusted: b.trusted(), Settled: far.Settled,
	}
}

// Baseline is the sessions of a category and the sum of their rewards less what lessons explain.
func (c *Chooser) Baseline(category string) (n, sum float64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	b := c.cats[categoryScope(category)]
	if b == nil {
		return 0, 0
	}
	return real64(b.v[iCN] + b.provisional[iCN]), real64(b.v[iCS] + b.provisional[iCS])
}

// RawCounts are the rewards of the sessions that had the lesson, as successes and failures.
func (c *Chooser) RawCounts(k trial.Arm) (successes, failures float64) {
	s := c.measured.Stats(k)
	return s.Y1, max(0, s.M1-s.Y1)
}

// MeanAt is the posterior mean effect as it would be with only the sessions that started before a
// day: whether a lesson has been without promise for long is read off the buckets, so that nobody
// has to keep a diary.
func (c *Chooser) MeanAt(k Action, day int32) float64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	mu0 := c.prior(k, (*arm).counted)
	a := c.arms[k.Arm]
	if a == nil {
		return mu0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.weighed(newClock(0, day, c.clock.halfLife), day)
	return c.priors.update(evidenceOf(s), mu0).m
}

// Clone copies the counters, so that a provisional report can add sessions that are still open;
// what only the chooser knows is left out.
func (c *Chooser) Clone() *Chooser {
	out := over(c.measured.Clone())
	c.mu.RLock()
	defer c.mu.RUnlock()
	out.clock, out.priors, out.tenant = c.clock, c.priors, c.tenant
	for k, a := range c.arms {
		out.arms[k] = a.clone()
		out.link(k)
	}
	for k, b := range c.cats {
		out.cats[k] = &baseline{v: b.v}
	}
	return out
}

func real64(v int64) float64 { return float64(v) / trial.One }
