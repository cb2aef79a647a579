package trial

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
)

// Counters holds one tenant's evidence in memory, and is safe for concurrent use.
//
// Lock order: Counters.mu, then one sums.mu or plannedTrial.mu, then poolMu. dirtyMu and modelsMu are leaf locks.
// Counters.mu is held for writing only to add a scope or to set the current day, so a request waits at most for a map
// insert or for one arm's sums.
type Counters struct {
	mu      sync.RWMutex
	arms    map[Arm]*sums
	planned map[string]*plannedTrial // planned trials, by scope
	global  *sums
	day     int32 // today, in days since 1970

	dirtyMu   sync.Mutex
	dirtyArms map[Arm]struct{} // arms that changed since the last RaiseMaxima

	poolMu     sync.Mutex                        // guards pool and surrogates
	pool       [OutcomeCount][poolSumCount]int64 // outcome sums over all arms
	surrogates [surrogateSumCount]int64          // surrogate sums over all arms

	modelsMu sync.Mutex
	models   map[string]struct{}
}

// NewCounters returns counters without evidence and without a day.
func NewCounters() *Counters {
	return &Counters{
		arms: map[Arm]*sums{}, planned: map[string]*plannedTrial{}, global: &sums{},
		dirtyArms: map[Arm]struct{}{}, day: math.MinInt32, models: map[string]struct{}{},
	}
}

// Add adds deltas (changes to counters) from one session or a whole store. Monotone deltas are merged by maximum, and
// unknown fields are ignored.
func (c *Counters) Add(ds []Delta) {
	for len(ds) > 0 {
		n := ScopePrefixLen(ds)
		if strings.HasPrefix(ds[0].Key.Scope, plannedPrefix) {
			c.addEntries(ds[0].Key.Scope, ds[:n])
		} else if ds[0].Key.Scope == "" || IsArm(ds[0].Key.Scope) {
			c.addScope(ds[0].Key.Scope, ds[:n])
		}
		ds = ds[n:]
	}
}

// ScopePrefixLen returns how many leading deltas have the same scope. These deltas are added under one lock, so that a
// reader never sees a count without the sum.
func ScopePrefixLen(ds []Delta) int {
	n := 1
	for n < len(ds) && ds[n].Key.Scope == ds[0].Key.Scope {
		n++
	}
	return n
}

func (c *Counters) addScope(name string, ds []Delta) {
	s := c.scopeSums(name, true)
	var betsChanged, pooled bool
	var named []string // models
	var pool [OutcomeCount][poolSumCount]int64
	s.mu.Lock()
	s.add(ds, func(d *Delta, pos position) {
		switch {
		case pos.kind == modelSum:
			_, model, _ := readModelField(d.Key.Field)
			named = append(named, model)
		case pos.kind == betSum:
			betsChanged = true
		case pos.kind == outcomeSum && pos.index%outcomeSumCount < poolSumCount:
			pool[pos.index/outcomeSumCount][pos.index%outcomeSumCount] += d.Value
			pooled = true
		case pos.kind == surrogateSum:
			c.addSurrogate(pos.index, d.Value)
		}
	})
	s.mu.Unlock()
	for _, model := range named {
		c.addModel(model)
	}
	if pooled {
		c.addPool(&pool)
	}
	if betsChanged {
		c.dirtyMu.Lock()
		c.dirtyArms[Arm(name)] = struct{}{}
		c.dirtyMu.Unlock()
	}
}

func (c *Counters) addPool(sums *[OutcomeCount][poolSumCount]int64) {
	c.poolMu.Lock()
	defer c.poolMu.Unlock()
	for o := range sums {
		for i, v := range sums[o] {
			c.pool[o][i] += v
		}
	}
}

func (c *Counters) addSurrogate(index int, v int64) {
	c.poolMu.Lock()
	defer c.poolMu.Unlock()
	c.surrogates[index] += v
}

// MergeMaxima merges other replicas' running maxima.
func (c *Counters) MergeMaxima(maxima []Delta) {
	for _, d := range maxima {
		if d.Key.Monotone() {
			c.Add([]Delta{d})
		}
	}
}

func (c *Counters) scopeSums(name string, create bool) *sums {
	if name == "" {
		return c.global
	}
	return getOrAdd(&c.mu, c.arms, Arm(name), create)
}

// getOrAdd returns an entry in a map that only grows, and adds a missing entry if create is true.
func getOrAdd[K comparable, V any](mu *sync.RWMutex, m map[K]*V, key K, create bool) *V {
	mu.RLock()
	v := m[key]
	mu.RUnlock()
	if v != nil || !create {
		return v
	}
	mu.Lock()
	defer mu.Unlock()
	if m[key] == nil {
		m[key] = new(V)
	}
	return m[key]
}

// Arms returns all arms with counters, sorted.
func (c *Counters) Arms() []Arm {
	c.mu.RLock()
	defer c.mu.RUnlock()
	ks := make([]Arm, 0, len(c.arms))
	for k := range c.arms {
		ks = append(ks, k)
	}
	slices.Sort(ks)
	return ks
}

// Clone copies the counters.
func (c *Counters) Clone() *Counters {
	out := NewCounters()
	c.mu.RLock()
	defer c.mu.RUnlock()
	out.day = c.day
	for k, s := range c.arms {
		out.arms[k] = s.clone()
	}
	for scope, p := range c.planned {
		out.planned[scope] = p.clone()
	}
	out.global = c.global.clone()
	c.modelsMu.Lock()
	out.models = maps.Clone(c.models)
	c.modelsMu.Unlock()
	c.poolMu.Lock()
	defer c.poolMu.Unlock()
	out.pool, out.surrogates = c.pool, c.surrogates
	return out
}

// Inherit copies each interval's smallest width from the old counters after a reload. The store does not have these
// widths.
func (c *Counters) Inherit(from *Counters) {
	from.mu.RLock()
	defer from.mu.RUnlock()
	for k, old := range from.arms {
		old.mu.Lock()
		narrowest := old.narrowest
		old.mu.Unlock()
		if narrowest == 0 {
			continue
		}
		s := c.scopeSums(string(k), true)
		s.mu.Lock()
		s.narrowest = narrowest
		s.mu.Unlock()
	}
}

func (c *Counters) addEntries(scope string, ds []Delta) {
	t := getOrAdd(&c.mu, c.planned, scope, true)
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range ds {
		if e, ok := readEntry(&ds[i]); ok {
			t.entries, t.isSorted = append(t.entries, e), false
		}
	}
}

// Evaluations returns the evaluations of all planned trials that have a rewarded session, ordered by start.
func (c *Counters) Evaluations() []Evaluation {
	c.mu.RLock()
	scopes := maps.Clone(c.planned)
	c.mu.RUnlock()
	out := make([]Evaluation, 0, len(scopes))
	for scope, t := range scopes {
		end := strings.LastIndexByte(scope, '#') // a section's arm contains another '#'
		if end < len(plannedPrefix) {
			continue
		}
		if l := t.evaluate(Arm(scope[len(plannedPrefix):end]), scope[end+1:]); l.Entries > 0 {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(x, y Evaluation) int {
		return cmp.Or(cmp.Compare(x.Began, y.Began), cmp.Compare(x.Trial, y.Trial), cmp.Compare(x.Arm, y.Arm))
	})
	return out
}
