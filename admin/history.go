package admin

import (
	"maps"
	"slices"
	"sync"
	"time"

	"precept/bandit/report"
	"precept/inject/lesson"
)

// history holds effects since the start of the server, in memory. Charts of an experiment that is younger
// than two days show these effects.
type history struct {
	mu   sync.Mutex
	seen map[historyKey][]effectAt
}

// historyKey identifies the effects of an arm, or of all lessons of a tenant together if Arm is empty.
type historyKey struct{ Tenant, Arm string }

// reportKey identifies a report that pages share.
type reportKey struct {
	Tenant      string
	Window      time.Duration
	Provisional bool
}

// whole reports whether the report contains all closed sessions and no others. Only such reports enter the
// history, so that all effects of a chart have one definition.
func (k reportKey) whole() bool { return k.Window == 0 && !k.Provisional }

// effectAt is an effect at a moment.
type effectAt struct {
	at     time.Time
	effect effect
}

const (
	historyKeys    = 256             // maximum number of keys; further keys are ignored
	historyEffects = 400             // maximum number of effects per key
	historyEvery   = 2 * time.Second // minimum time between two effects of a key
)

func newHistory() *history { return &history{seen: map[historyKey][]effectAt{}} }

// add adds an effect to the history of a key, unless the effect is nil or too soon after the last one. If
// the key has historyEffects effects, every second one is removed first.
func (h *history) add(key historyKey, e *effect, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	effects, known := h.seen[key]
	if e == nil || !known && len(h.seen) >= historyKeys || known && now.Sub(effects[len(effects)-1].at) < historyEvery {
		return
	}
	if len(effects) >= historyEffects {
		i := 0
		effects = slices.DeleteFunc(effects, func(effectAt) bool { i++; return i%2 == 0 })
	}
	h.seen[key] = append(effects, effectAt{now, *e})
}

// addReport adds the effects of a report to the history. The report contains all closed sessions.
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
	return slices.Clone(h.seen[key])
}

// decisions holds lessons in the state after a decision of the last seconds. The watcher of the lessons sees
// a change up to two seconds later. Until then the queue would show a decided lesson again, and the lesson's
// page would show the old state.
type decisions struct {
	mu   sync.Mutex
	list map[string]decision
}

// decision is a lesson in the state after a decision.
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

// recent returns the lesson after a decision of the last seconds, or nil without such a decision.
func (d *decisions) recent(slug string, now time.Time) *lesson.Lesson {
	d.mu.Lock()
	defer d.mu.Unlock()
	if x, ok := d.list[slug]; ok && now.Sub(x.at) <= decisionAge {
		return x.lesson
	}
	return nil
}
