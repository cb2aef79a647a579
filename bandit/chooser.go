package bandit

import (
	"iter"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"precept/bandit/trial"
)

// Chooser holds one tenant's counters and the Beliefs based on them.
//
// Lock order: Chooser.mu, then one arm.mu. Chooser.mu is held for writing only to add a scope or a few numbers, or to
// replace ageWeights or priors, so a request waits at most for a map insert or for one arm's six sums. No lock in
// package trial is taken while Chooser.mu or arm.mu is held.
type Chooser struct {
	trialCounters *trial.Counters

	mu             sync.RWMutex
	arms           map[string]*arm                       // by slug: the arms of all texts of a lesson, linked by next
	categories     map[string]*baseline                  // by category scope
	cells          map[string]*[baselineFieldCount]int64 // sums over the sessions with the same facts, by cellScope
	agents         map[string]struct{}                   // agents counted by name (BoundNames)
	tenantBaseline baseline                              // sums over all categories
	openPicks      map[string]int64                      // rewarded picks in open sessions, by planned trial scope
	tenant         [globalFieldCount]int64               // sums over all the tenant's sessions
	ageWeights     *ageWeights
	priors         Priors
}

// baseline holds the rewards in a category's closed and open sessions, minus the predicted lesson effects.
type baseline struct {
	closed, provisional [baselineFieldCount]int64
}

// New returns a chooser with the default priors. All evidence has full weight until Advance or RaiseMaxima sets the
// current day.
func New() *Chooser { return newChooser(trial.NewCounters()) }

func newChooser(measured *trial.Counters) *Chooser {
	return &Chooser{
		trialCounters: measured, arms: map[string]*arm{}, categories: map[string]*baseline{}, cells: map[string]*[baselineFieldCount]int64{}, agents: map[string]struct{}{}, openPicks: map[string]int64{},
		ageWeights: newAgeWeights(1, math.MinInt32, minHalfLife), priors: DefaultPriors(),
	}
}

// TrialCounters returns the trial counters, the only input for a report's effects.
func (c *Chooser) TrialCounters() *trial.Counters { return c.trialCounters }

// NewMeasurement returns a measurement for a pick's outcomes, as trial.Counters.NewMeasurement does. The chooser itself
// reads no outcome.
func (c *Chooser) NewMeasurement(k trial.Arm, eps float64, outcomes trial.OutcomeSet, from trial.Totals) trial.Measurement {
	return c.trialCounters.NewMeasurement(k, eps, outcomes, from)
}

// Add adds deltas (changes to counters) from one session (see Contribution) or a whole store, to the trial's and the
// chooser's counters. Monotone deltas are merged by maximum.
func (c *Chooser) Add(ds []trial.Delta) {
	c.trialCounters.Add(ds)
	for len(ds) > 0 {
		n := trial.ScopePrefixLen(ds)
		c.addScope(ds[0].Key.Scope, ds[:n])
		ds = ds[n:]
	}
}

// RaiseMaxima sets the current day, as AdvanceTo does, raises the trial's running maxima (the strongest evidence so
// far), and returns the raised maxima.
func (c *Chooser) RaiseMaxima(now time.Time) []trial.Delta {
	c.AdvanceTo(now)
	return c.trialCounters.RaiseMaxima(now)
}

func (c *Chooser) addScope(scope string, ds []trial.Delta) {
	isKnown := func(d trial.Delta) bool {
		_, ok := findPosition(&d)
		return ok
	}
	switch kind := parseScopeKind(scope); kind {
	case otherKind:
	case armKind:
		if a := c.arm(trial.Arm(scope), slices.ContainsFunc(ds, isKnown)); a != nil {
			a.add(ds)
		}
	default:
		c.mu.Lock()
		defer c.mu.Unlock()
		targets := [][]int64{c.tenant[:]}
		if kind == categoryKind {
			targets = [][]int64{c.category(cellCategory(scope)).closed[:], c.tenantBaseline.closed[:], c.cell(scope)[:]}
			c.addAgent(parseFacts(scope)[factAgent])
		}
		for i := range ds {
			if pos, ok := findPosition(&ds[i]); ok {
				for _, sums := range targets {
					sums[pos.index] += ds[i].Value
				}
			}
		}
	}
}

// arm returns an arm's state. If the arm is missing, arm adds it if create is true, and otherwise returns nil.
func (c *Chooser) arm(k trial.Arm, create bool) *arm {
	c.mu.RLock()
	a := c.find(k)
	c.mu.RUnlock()
	if a != nil || !create {
		return a
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if a = c.find(k); a == nil {
		a = &arm{key: k}
		c.link(a)
	}
	return a
}

// find returns nil for an unknown arm. The caller holds mu.
func (c *Chooser) find(k trial.Arm) *arm {
	a := c.arms[k.Slug()]
	for a != nil && a.key != k {
		a = a.next
	}
	return a
}

func (c *Chooser) link(a *arm) {
	slug := a.key.Slug()
	a.next = c.arms[slug]
	c.arms[slug] = a
}

func (c *Chooser) allArms() iter.Seq[*arm] {
	return func(yield func(*arm) bool) {
		for _, a := range c.arms {
			for ; a != nil; a = a.next {
				if !yield(a) {
					return
				}
			}
		}
	}
}

// category returns a scope's baseline, and adds the baseline if it is missing. The caller holds mu.
func (c *Chooser) category(scope string) *baseline {
	b := c.categories[scope]
	if b == nil {
		b = &baseline{}
		c.categories[scope] = b
	}
	return b
}

// cell returns a scope's sums, and adds the sums if they are missing. The caller holds mu.
func (c *Chooser) cell(scope string) *[baselineFieldCount]int64 {
	v := c.cells[scope]
	if v == nil {
		v = new([baselineFieldCount]int64)
		c.cells[scope] = v
	}
	return v
}

// Clone copies the counters without rewards in open sessions and without snapshots.
func (c *Chooser) Clone() *Chooser {
	out := newChooser(c.trialCounters.Clone())
	c.mu.RLock()
	defer c.mu.RUnlock()
	out.ageWeights, out.priors, out.tenant = c.ageWeights, c.priors, c.tenant
	for a := range c.allArms() {
		out.link(a.clone())
	}
	for k, b := range c.categories {
		out.categories[k] = &baseline{closed: b.closed}
	}
	for k, v := range c.cells {
		out.cells[k] = new(*v)
	}
	maps.Copy(out.agents, c.agents)
	out.tenantBaseline.closed = c.tenantBaseline.closed
	return out
}

// Advance sets the current day (days since 1970) and the evidence half-life.
func (c *Chooser) Advance(day int32, halfLifeDays float64) {
	c.trialCounters.Advance(day)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ageWeights = newAgeWeights(c.ageWeights.stamp+1, day, halfLifeDays)
}

// AdvanceTo sets the current day, and derives the half-life from the number of sessions closed in the last four weeks.
func (c *Chooser) AdvanceTo(now time.Time) {
	day := trial.Day(now)
	c.mu.RLock()
	same := c.ageWeights.day == day
	c.mu.RUnlock()
	if !same {
		c.Advance(day, halfLifeSessions/c.trialCounters.ClosedPerDay(day)) // newAgeWeights bounds the half-life
	}
}
