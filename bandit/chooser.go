package bandit

import (
	"math"
	"slices"
	"sync"
	"time"

	"precept/bandit/trial"
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

// Advance says what day it is (days since 1970) and how fast evidence ages. Beliefs of a day are
// the same at any hour.
func (c *Chooser) Advance(day int32, halfLifeDays float64) {
	c.measured.Advance(day)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock = newClock(c.clock.stamp+1, day, halfLifeDays)
}

// Today advances to the day of a moment, with the half-life that the sessions closed in the last
// four weeks call for. It does nothing while the day stays the same.
func (c *Chooser) Today(now time.Time) {
	day := trial.Day(now)
	c.mu.RLock()
	same := c.clock.day == day
	c.mu.RUnlock()
	if !same {
		c.Advance(day, halfLifeSessions/c.measured.ClosedPerDay(day)) // within the bounds of a clock
	}
}
