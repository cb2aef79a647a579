package bandit

import (
	"maps"
	"slices"

	"precept/bandit/trial"
)

// Provisional is what an open session contributes to the chooser's evidence. The caller must call DropProvisional
// before adding the session's deltas.
type Provisional struct {
	parts    []part
	trials   []string // planned trial scopes
	rewarded bool
}

type part struct {
	scope    string
	position position
	value    int64
}

// AddProvisional adds an open session's current reward to the chooser's evidence, but not to the report. In a report,
// shorter sessions would count first, so a lesson that shortens sessions would seem to help. For the chooser this error
// is small, whereas ignoring the last day would cost a fifth of the attainable gain.
func (c *Chooser) AddProvisional(a *trial.Assignment, y float64, tier int) Provisional {
	counted := *a
	c.mu.RLock()
	counted.Category = c.withCountedAgent(a.Category)
	c.mu.RUnlock()
	ds := Contribution(&counted, y, tier)
	e := Provisional{rewarded: len(ds) > 0}
	for i := range ds {
		if pos, ok := findPosition(&ds[i]); ok && pos.scope != globalKind {
			e.parts = append(e.parts, part{ds[i].Key.Scope, pos, ds[i].Value})
		}
	}
	for _, d := range a.TrialEntries("", y) {
		e.trials = append(e.trials, d.Key.Scope)
	}
	c.addProvisional(e, 1)
	return e
}

// RestoreProvisional adds an earlier contribution again, after the chooser was reloaded from the store.
func (c *Chooser) RestoreProvisional(e Provisional) { c.addProvisional(e, 1) }

// DropProvisional removes an open session's contribution.
func (c *Chooser) DropProvisional(e Provisional) { c.addProvisional(e, -1) }

// Rewarded reports whether the contribution has a reward.
func (p Provisional) Rewarded() bool { return p.rewarded }

// addProvisional adds a contribution for sign 1, and removes it for sign -1.
func (c *Chooser) addProvisional(e Provisional, sign int64) {
	for _, p := range e.parts {
		if p.position.scope == armKind {
			a := c.arm(trial.Arm(p.scope), true)
			a.mu.Lock()
			state := a.ensureLocal()
			state.provisional[p.position.index] += sign * p.value
			if state.isZero() {
				a.local = nil
			}
			a.cached = nil
			a.mu.Unlock()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range e.parts {
		if p.position.scope == categoryKind {
			name := cellCategory(p.scope)
			b := c.category(name)
			b.provisional[p.position.index] += sign * p.value
			if *b == (baseline{}) {
				delete(c.categories, name)
			}
			c.tenantBaseline.provisional[p.position.index] += sign * p.value
		}
	}
	for _, scope := range e.trials {
		if c.openPicks[scope] += sign; c.openPicks[scope] == 0 {
			delete(c.openPicks, scope)
		}
	}
}

// Inherit copies the rewards in open sessions and the snapshots from the old chooser, after the counters were reloaded
// from the store.
func (c *Chooser) Inherit(from *Chooser) {
	c.trialCounters.Inherit(from.trialCounters)
	from.mu.RLock()
	defer from.mu.RUnlock()
	for old := range from.allArms() {
		old.mu.Lock()
		var local *localState
		if old.local != nil {
			local = &localState{old.local.provisional, snapshots{slices.Clone(old.local.snapshots.list), old.local.snapshots.interval}}
		}
		old.mu.Unlock()
		if local == nil {
			continue
		}
		a := c.arm(old.key, true)
		a.mu.Lock()
		a.local, a.cached = local, nil
		a.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for scope, old := range from.categories {
		if old.provisional != ([baselineFieldCount]int64{}) {
			c.category(scope).provisional = old.provisional
		}
	}
	c.tenantBaseline.provisional = from.tenantBaseline.provisional
	maps.Copy(c.openPicks, from.openPicks)
}
