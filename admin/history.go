package admin

import (
	"maps"
	"slices"
	"sync"
	"time"

	"precept/bandit/report"
	"precept/inject/lesson"
)

// history holds the effects computed since the server's start. Charts show these effects until an experiment has two
// days of counters.
type history struct {
	mu    sync.Mutex
	byKey map[historyKey][]effectAt
}

// historyKey identifies an arm, or all of a tenant's lessons if Arm is empty.
type historyKey struct{ Tenant, Arm string }

type reportKey struct {
	Tenant      string
	Window      time.Duration
	Provisional bool
}

// countsAllClosed reports whether a report counts all closed sessions and no open ones. Only such reports enter the
// history, so a chart's effects are comparable.
func (k reportKey) countsAllClosed() bool { return k.Window == 0 && !k.Provisional }

type effectAt struct {
	at     time.Time
	effect effect
}

const (
	historyKeys    = 256             // effects under further keys are not kept
	historyEffects = 400             // per key
	historyEvery   = 2 * time.Second // minimum time between two effects per key
)

func newHistory() *history { return &history{byKey: map[historyKey][]effectAt{}} }

// add adds an effect, unless the effect is nil, follows the last one within historyEvery, or belongs to a new key
// when there are historyKeys keys already. If the key has historyEffects effects, add first removes every second one.
func (h *history) add(key historyKey, e *effect, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	effects, hasKey := h.byKey[key]
	if e == nil || !hasKey && len(h.byKey) >= historyKeys || hasKey && now.Sub(effects[len(effects)-1].at) < historyEvery {
		return
	}
	if len(effects) >= historyEffects {
		i := 0
		effects = slices.DeleteFunc(effects, func(effectAt) bool { i++; return i%2 == 0 })
	}
	h.byKey[key] = append(effects, effectAt{now, *e})
}

// addReport adds the effects in a report that countsAllClosed.
func (h *history) addReport(tenant string, r *report.Report, now time.Time) {
	for i := range r.Lessons {
		h.add(historyKey{tenant, r.Lessons[i].Arm}, rowEffect(&r.Lessons[i]), now)
	}
	h.add(historyKey{Tenant: tenant}, globalEffect(&r.Global), now)
}

func (h *history) effects(key historyKey) []effectAt {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.byKey[key])
}

// decisions holds the lessons that a person changed in the last seconds, in the new state. The lesson watcher reads a
// changed file within two seconds; without decisions, pages would show the old state until then.
type decisions struct {
	mu   sync.Mutex
	list map[string]decision
}

type decision struct {
	lesson *lesson.Lesson
	at     time.Time
}

const decisionAge = 5 * time.Second // longer than the watcher needs

func (d *decisions) add(l *lesson.Lesson, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.list, func(_ string, x decision) bool { return now.Sub(x.at) > decisionAge })
	d.list[l.Slug] = decision{l, now}
}

// recent returns the lesson in the state after a decision in the last seconds, or nil if there was no such decision.
func (d *decisions) recent(slug string, now time.Time) *lesson.Lesson {
	d.mu.Lock()
	defer d.mu.Unlock()
	if x, ok := d.list[slug]; ok && now.Sub(x.at) <= decisionAge {
		return x.lesson
	}
	return nil
}
