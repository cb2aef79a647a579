package admin

import (
	"maps"
	"slices"
	"sync"
	"time"

	"precept/bandit/report"
)

// history is effects as reports for pages had them since the server started: it fills the charts of
// an experiment that is younger than two days, whose days the counters keep. It holds a bounded
// number of looks, in memory only.
type history struct {
	mu   sync.Mutex
	seen map[historyKey][]look
}

// historyKey names what the looks are of: an arm, or with "" all lessons of a tenant together.
type historyKey struct{ Tenant, Arm string }

// reportKey names the reports that pages are made of.
type reportKey struct {
	Tenant      string
	Window      time.Duration
	Provisional bool
}

// whole says that all closed sessions are in it: looks at other selections belong on no common
// chart.
func (k reportKey) whole() bool { return k.Window == 0 && !k.Provisional }

// look is an effect as it stood at a moment.
type look struct {
	at time.Time
	effect
}

const (
	historyKeys  = 256
	historyLooks = 400
	historyEvery = 2 * time.Second
)

func newHistory() *history { return &history{seen: map[historyKey][]look{}} }

// add keeps what is shown, when there is something; when there is no more room, every second look
// goes.
func (h *history) add(key historyKey, e *effect, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	looks, known := h.seen[key]
	if e == nil || !known && len(h.seen) >= historyKeys || known && now.Sub(looks[len(looks)-1].at) < historyEvery {
		return
	}
	if len(looks) >= historyLooks {
		i := 0
		looks = slices.DeleteFunc(looks, func(look) bool { i++; return i%2 == 0 })
	}
	h.seen[key] = append(looks, look{now, *e})
}

// note keeps what a report of all closed sessions shows, of every lesson and of all together.
func (h *history) note(tenant string, r *report.Report, now time.Time) {
	for i := range r.Lessons {
		h.add(historyKey{tenant, r.Lessons[i].Arm}, shownOf(&r.Lessons[i]), now)
	}
	h.add(historyKey{Tenant: tenant}, globalOf(&r.Global), now)
}

// of are the looks that were noted.
func (h *history) of(key historyKey) []look {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.seen[key])
}

// decisions are the lessons that a person has just decided on: what watches their place needs up to
// two seconds to see it, and the queue shall not ask twice meanwhile.
type decisions struct {
	mu sync.Mutex
	at map[string]time.Time
}

const decisionAge = 5 * time.Second

func (d *decisions) add(slug string, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.at, func(_ string, at time.Time) bool { return now.Sub(at) > decisionAge })
	d.at[slug] = now
}

func (d *decisions) recently(slug string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, ok := d.at[slug]
	return ok && now.Sub(at) <= decisionAge
}
