package admin

import (
	"maps"
	"slices"
	"sync"
	"time"

	"precept/bandit/report"
	"precept/inject/lesson"
)

// history holds the effects that the server has computed since its start, in memory. Charts show these effects while
// an experiment has fewer than two days of counters.
type history struct {
	mu    sync.Mutex
	byKey map[historyKey][]effectAt
}

// historyKey identifies the effects of an arm. If Arm is empty, it identifies the effects of all lessons of the tenant
// together.
type historyKey struct{ Tenant, Arm string }

// reportKey identifies a report that pages share.
type reportKey struct {
	Tenant      string
	Window      time.Duration
	Provisional bool
}

// countsAllClosed reports whether the report counts all closed sessions and no open ones. Only such reports enter the
// history, so that all effects of a chart are comparable.
func (k reportKey) countsAllClosed() bool { return k.Window == 0 && !k.Provisional }

// effectAt is an effect and the time at which it was computed.
type effectAt struct {
	at     time.Time
	effect effect
}

const (
	historyKeys    = 256             // maximum number of keys; further keys are ignored
	historyEffects = 400             // maximum number of effects per key
	historyEvery   = 2 * time.Second // minimum time between two effects of a key
)

func newHistory() *history { return &history{byKey: map[historyKey][]effectAt{}} }

// add adds an effect to the history of a key. add ignores a nil effect, an effect within historyEvery of the last one,
// and a new key beyond historyKeys. If the key already has historyEffects effects, add first removes every second
// effect.
func (h *history) add(key historyKey, e *effect, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	effects, known := h.byKey[key]
	if e == nil || !known && len(h.byKey) >= historyKeys || known && now.Sub(effects[len(effects)-1].at) < historyEvery {
		return
	}
	if len(effects) >= historyEffects {
		i := 0
		effects = slices.DeleteFunc(effects, func(effectAt) bool { i++; return i%2 == 0 })
	}
	h.byKey[key] = append(effects, effectAt{now, *e})
}

// addReport adds the effects of a report to the history. The report must count all closed sessions and no open ones.
func (h *history) addReport(tenant string, r *report.Report, now time.Time) {
	for i := range r.Lessons {
		h.add(historyKey{tenant, r.Lessons[i].Arm}, rowEffect(&r.Lessons[i]), now)
	}
	h.add(historyKey{Tenant: tenant}, globalEffect(&r.Global), now)
}

// effects returns the effects of a key, oldest first.
func (h *history) effects(key historyKey) []effectAt {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.byKey[key])
}

// decisions holds lessons in their state after a decision of the last seconds. The watcher of the lessons sees a
// change up to two seconds later. Until then, the queue would still show a decided lesson, and the lesson's page would
// show the old state.
type decisions struct {
	mu   sync.Mutex
	list map[string]decision
}

// decision is a lesson in the state after a decision.
type decision struct {
	lesson *lesson.Lesson
	at     time.Time
}

const decisionAge = 5 * time.Second // longer than the watcher needs to see a change

func (d *decisions) add(l *lesson.Lesson, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.list, func(_ string, x decision) bool { return now.Sub(x.at) > decisionAge })
	d.list[l.Slug] = decision{l, now}
}

// recent returns the lesson in its state after a decision of the last seconds, or nil without such a decision.
func (d *decisions) recent(slug string, now time.Time) *lesson.Lesson {
	d.mu.Lock()
	defer d.mu.Unlock()
	if x, ok := d.list[slug]; ok && now.Sub(x.at) <= decisionAge {
		return x.lesson
	}
	return nil
}
