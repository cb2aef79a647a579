package bandit

import (
	"math"
	"slices"
	"sync"
	"time"
)

// Counters is one tenant's counts in memory, and the Beliefs that follow from them. It is safe for concurrent use: Decide
// reads it on the request path while a recorder adds to it.
//
// Lock order: Counters.mu, then one arm.mu. Counters.mu is held for writing only to add a scope or to swap clock or
// priors, so a request never waits for more than a map insert or the six sums of one arm.
type Counters struct {
	mu     sync.RWMutex
	arms   map[Arm]*arm
	slugs  map[string][]Arm // the texts that a lesson has had
	cats   map[string]*arm  // by scope
	global *arm
	clock  *clock
	priors Priors

	dirtyMu sync.Mutex
	dirty   map[Arm]struct{} // changed since Maxima last looked
}

// NewCounters has no evidence, the default priors, and counts everything in full until Advance or Maxima says what day it is.
func NewCounters() *Counters {
	return &Counters{
		arms: map[Arm]*arm{}, slugs: map[string][]Arm{}, cats: map[string]*arm{}, global: &arm{}, dirty: map[Arm]struct{}{},
		clock: newClock(1, math.MinInt32, minHalfLife), priors: DefaultPriors(),
	}
}

// Add takes deltas in: of one session, or all that a store holds. Monotone ones among them are merged by maximum.
func (c *Counters) Add(ds []Delta) {
	for len(ds) > 0 {
		n := 1 // the deltas of one scope go in together, so that no reader sees a count without its sum
		for n < len(ds) && ds[n].Scope == ds[0].Scope {
			n++
		}
		c.addScope(ds[0].Scope, ds[:n])
		ds = ds[n:]
	}
}

func (c *Counters) addScope(name string, ds []Delta) {
	a := c.scope(name, true)
	bet := false
	a.mu.Lock()
	for _, d := range ds {
		a.add(d)
		_, _, ok := betField(d.Field)
		bet = bet || ok
	}
	a.mu.Unlock()
	if bet {
		c.dirtyMu.Lock()
		c.dirty[Arm(name)] = struct{}{}
		c.dirtyMu.Unlock()
	}
}

// Raise merges maxima that others found.
func (c *Counters) Raise(maxima []Delta) {
	for _, d := range maxima {
		if d.Monotone() {
			c.addScope(d.Scope, []Delta{d})
		}
	}
}

// scope finds the counters of a scope; with create it makes what is missing.
func (c *Counters) scope(name string, create bool) *arm {
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
func (c *Counters) link(k Arm) {
	slug := k.Slug()
	c.slugs[slug] = append(c.slugs[slug], k)
}

func (c *Counters) find(name string) *arm {
	if isCategory(name) {
		return c.cats[name]
	}
	return c.arms[Arm(name)]
}

func isCategory(scope string) bool { return len(scope) > 1 && scope[0] == 'x' && scope[1] == ':' }

// Posterior is what the chooser believes of a candidate's arm, today.
func (c *Counters) Posterior(k Candidate) Posterior {
	c.mu.RLock()
	defer c.mu.RUnlock()
	mu0 := c.prior(k)
	var e evidence
	var proven bool
	if a := c.arms[k.Arm]; a != nil {
		a.mu.Lock()
		e, proven = a.discounted(c.clock), a.provenAt > 0
		a.mu.Unlock()
	}
	b := c.priors.update(e, mu0)
	return Posterior{Mean: b.m, Var: b.v, Match: b.del, Proven: proven, Probe: b.m < 0}
}

// prior is the mean that a candidate starts from. The heir of a superseded lesson gets half of what that came to, but
// starts no lower than any newcomer; an edited text gets half of what the old text came to, but stays where it can be
// tried. The caller holds mu.
func (c *Counters) prior(k Candidate) float64 {
	own := c.priors.mean(k.Confidence)
	parent, floor := k.Parent, minMu0
	if parent == "" || parent.Slug() == k.Slug {
		floor = minPrior
	}
	if parent == "" {
		parent = c.before(k)
	}
	if parent == "" || parent == k.Arm {
		return own
	}
	var e evidence
	if a := c.arms[parent]; a != nil {
		a.mu.Lock()
		e = a.discounted(c.clock)
		a.mu.Unlock()
	}
	return math.Max(floor, c.priors.update(e, own).m/2)
}

// before finds the text that a lesson had before this one: the arm of the same slug that was first used last, and before
// this arm was. The caller holds mu.
func (c *Counters) before(k Candidate) Arm {
	arms := c.slugs[k.Slug]
	if len(arms) == 0 || (len(arms) == 1 && arms[0] == k.Arm) {
		return ""
	}
	limit, ok := c.firstUse(k.Arm)
	if !ok {
		limit = math.MaxInt32
	}
	var best Arm
	newest := int32(math.MinInt32)
	for _, other := range arms {
		first, ok := c.firstUse(other)
		if other == k.Arm || !ok || first > limit || (first == limit && other > k.Arm) {
			continue
		}
		if first > newest || (first == newest && other > best) {
			best, newest = other, first
		}
	}
	return best
}

func (c *Counters) firstUse(k Arm) (day int32, ok bool) {
	a := c.arms[k]
	if a == nil {
		return 0, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.buckets) == 0 {
		return 0, false
	}
	return a.buckets[0].day, true
}

// Baseline is the sessions of a category and the sum of their rewards less what lessons explain.
func (c *Counters) Baseline(category string) (n, sum float64) {
	c.mu.RLock()
	a := c.cats[categoryScope(category)]
	c.mu.RUnlock()
	if a == nil {
		return 0, 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return float64(a.sum[iCN]) / Unit, float64(a.sum[iCS]) / Unit
}

// RawCounts are the rewards of the sessions that had the lesson, as successes and failures.
func (c *Counters) RawCounts(k Arm) (successes, failures float64) {
	a := c.scope(string(k), false)
	if a == nil {
		return 0, 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return math.Max(0, float64(a.sum[iY1])/Unit), math.Max(0, float64(a.sum[iM1]-a.sum[iY1])/Unit)
}

// The half-life of evidence: 30,000 sessions of the tenant, in days. Without a discount half of the attainable gain is
// lost after the world has changed; a shorter one forgets what still holds.
const (
	halfLifeSessions = 30_000
	minHalfLife      = 7
	maxHalfLife      = 1000
)

// HalfLife turns a tenant's sessions per day into the half-life of its evidence, in days.
func HalfLife(sessionsPerDay float64) float64 {
	if !(sessionsPerDay > 0) {
		return maxHalfLife
	}
	return clip(halfLifeSessions/sessionsPerDay, minHalfLife, maxHalfLife)
}

// Advance says what day it is (days since 1970) and how fast evidence ages. Beliefs of a day are the same at any hour.
func (c *Counters) Advance(day int32, halfLifeDays float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock = newClock(c.clock.stamp+1, day, halfLifeDays)
}

// Today advances to the day of a moment, with the half-life that the sessions closed in the last four weeks call for. It
// does nothing while the day stays the same.
func (c *Counters) Today(now time.Time) {
	day := Day(now)
	c.mu.RLock()
	same := c.clock.day == day
	c.mu.RUnlock()
	if !same {
		c.Advance(day, HalfLife(c.sessionsPerDay(day)))
	}
}

// Day is the bucket of a moment.
func Day(t time.Time) int32 {
	return int32(min(max(t.Unix()/86_400, math.MinInt32+1), math.MaxInt32))
}

// rateWindow is over how many days a rate is taken.
const rateWindow = 28

func (c *Counters) sessionsPerDay(day int32) float64 {
	g := c.global
	g.mu.Lock()
	defer g.mu.Unlock()
	var n int64
	first := day
	for i := range g.buckets {
		b := &g.buckets[i]
		if b.day > day-rateWindow && b.day <= day && b.v[iClosed] > 0 {
			first = min(first, b.day)
			n += b.v[iClosed]
		}
	}
	return float64(n) / Unit / float64(day-first+1)
}

// SetPriors puts priors in force that a replica has fitted.
func (c *Counters) SetPriors(p Priors) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.priors = p.sane()
}

// Priors are those in force.
func (c *Counters) Priors() Priors {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.priors
}

// Refit fits the priors in force to the lessons that were injected at least five times (discounted) and returns them
// with the next version. Nothing changes until SetPriors.
func (c *Counters) Refit() Priors {
	c.mu.RLock()
	defer c.mu.RUnlock()
	p := c.priors
	p.Sigma2 = c.residual()
	var es []evidence
	for _, k := range c.sorted() {
		a := c.arms[k]
		a.mu.Lock()
		e := a.discounted(c.clock).safe()
		a.mu.Unlock()
		if e.n1 >= 5 {
			es = append(es, e)
		}
	}
	return p.refit(es).sane()
}

// residual is the variance of a reward around the model: that of a binary reward while nearly all rewards are 0 or 1,
// else what was measured.
func (c *Counters) residual() float64 {
	g := c.global
	g.mu.Lock()
	defer g.mu.Unlock()
	n, graded := float64(g.sum[iTold]), float64(g.sum[iGraded])
	if n < 50*Unit || graded < 0.05*n {
		return startSigma2
	}
	return clip(float64(g.sum[iRes2])/n, 0.01, 0.25)
}

// sorted are the arms in a fixed order, so that sums over them do not depend on the map's. The caller holds mu.
func (c *Counters) sorted() []Arm {
	ks := make([]Arm, 0, len(c.arms))
	for k := range c.arms {
		ks = append(ks, k)
	}
	slices.Sort(ks)
	return ks
}
