package admin

import (
	"maps"
	"slices"
	"sync"
	"time"

	"precept/bandit/report"
	"precept/inject/lesson"
)

// history holds effects since the server's start, for the charts of an experiment of less than two
// days. The history is bounded and in memory.
type history struct {
	mu   sync.Mutex
	seen map[historyKey][]effectAt
}

// historyKey names an arm, or all lessons of a tenant if Arm is empty.
type historyKey struct{ Tenant, Arm string }

// reportKey names the reports of pages.
type reportKey struct {
	Tenant      string
	Window      time.Duration
	Provisional bool
}

// whole reports whether the report contains all closed sessions: other selections do not belong on
// one chart.
func (k reportKey) whole() bool { return k.Window == 0 && !k.Provisional }

// effectAt is an effect at a moment.
type effectAt struct {
	at     time.Time
	effect effect
}

const (
	historyKeys  = 256
	historyLooks = 400
	historyEvery = 2 * time.Second
)

func newHistory() *history { return &history{seen: map[historyKey][]effectAt{}} }

// add keeps an effect, if any; a full history drops every second look.
func (h *history) add(key historyKey, e *effect, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	looks, known := h.seen[key]
	if e == nil || !known && len(h.seen) >= historyKeys || known && now.Sub(looks[len(looks)-1].at) < historyEvery {
		return
	}
	if len(looks) >= historyLooks {
		i := 0
		looks = slices.DeleteFunc(looks, func(effectAt) bool { i++; return i%2 == 0 })
	}
	h.seen[key] = append(looks, effectAt{now, *e})
}

// note keeps the effects of a report of all closed sessions.
func (h *history) note(tenant string, r *report.Report, now time.Time) {
	for i := range r.Lessons {
		h.add(historyKey{tenant, r.Lessons[i].Arm}, shownOf(&r.Lessons[i]), now)
	}
	h.add(historyKey{Tenant: tenant}, globalOf(&r.Global), now)
}

// of returns the kept looks.
func (h *history) of(key historyKey) []effectAt {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.seen[key])
}

// decisions holds the lessons of the newest decisions: a watcher sees a change within two seconds. In
// the meantime the queue must not ask again, and the page of a lesson shows the new state.
type decisions struct {
	mu   sync.Mutex
	list map[string]decision
}

// decision holds a lesson after a decision.
type decision struct {
	lesson *lesson.Lesson
	at     time.Time
}

const decisionAge = 5 * time.Second

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
