package admin

import (
	"slices"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"precept/report"
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

// look is what was shown at a moment.
type look struct {
	at             time.Time
	effect, lo, hi float64
}

const (
	historyKeys  = 256
	historyLooks = 400
	historyEvery = 2 * time.Second
)

func newHistory() *history { return &history{seen: map[historyKey][]look{}} }

// add keeps what is shown, when there is something; when there is no more room, every second look
// goes.
func (h *history) add(key historyKey, effect, lo, hi *float64, now time.Time) []look {
	h.mu.Lock()
	defer h.mu.Unlock()
	looks := h.seen[key]
	if effect != nil && lo != nil && hi != nil && (len(looks) == 0 || now.Sub(looks[len(looks)-1].at) >= historyEvery) {
		if len(looks) >= historyLooks {
			kept := looks[:0]
			for i := 0; i < len(looks); i += 2 {
				kept = append(kept, looks[i])
			}
			looks = kept
		}
		if _, known := h.seen[key]; known || len(h.seen) < historyKeys {
			looks = append(looks, look{now, *effect, *lo, *hi})
			h.seen[key] = looks
		}
	}
	return append([]look(nil), looks...)
}

// note keeps what a report of all closed sessions shows, of every lesson and of all together.
func (h *history) note(tenant string, r *report.Report, now time.Time) {
	for i := range r.Lessons {
		effect, lo, hi := shownOf(&r.Lessons[i])
		h.add(historyKey{tenant, r.Lessons[i].Arm}, effect, lo, hi, now)
	}
	effect, lo, hi := globalOf(r)
	h.add(historyKey{Tenant: tenant}, effect, lo, hi, now)
}

// of are the looks that were noted.
func (h *history) of(key historyKey) []look {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.seen[key])
}

// wholeReport says that a request asks for all closed sessions: looks at other selections belong on
// no common chart.
func wholeReport(c echo.Context) bool {
	return c.QueryParam("window") == "" && c.QueryParam("provisional") == ""
}
