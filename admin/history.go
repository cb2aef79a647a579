package admin

import (
	"sync"
	"time"

	"precept/report"
)

// history is all lessons together as the overview showed them since the server started: it fills
// the chart of an experiment that is younger than two days, whose days the counters keep. It holds
// a bounded number of looks, in memory only.
type history struct {
	mu   sync.Mutex
	seen map[string][]look // by tenant
}

// look is what was shown at a moment.
type look struct {
	at             time.Time
	effect, lo, hi *float64
}

const (
	historyTenants = 64
	historyLooks   = 400
	historyEvery   = 2 * time.Second
)

func newHistory() *history { return &history{seen: map[string][]look{}} }

// add keeps what a report shows; when there is no more room, every second look goes.
func (h *history) add(tenant string, g *report.Global, now time.Time) []look {
	h.mu.Lock()
	defer h.mu.Unlock()
	looks := h.seen[tenant]
	if g.Effect != nil && g.Verdict != report.Invalid && (len(looks) == 0 || now.Sub(looks[len(looks)-1].at) >= historyEvery) {
		if len(looks) >= historyLooks {
			kept := looks[:0]
			for i := 0; i < len(looks); i += 2 {
				kept = append(kept, looks[i])
			}
			looks = kept
		}
		if _, known := h.seen[tenant]; known || len(h.seen) < historyTenants {
			looks = append(looks, look{now, g.Effect, g.Lo, g.Hi})
			h.seen[tenant] = looks
		}
	}
	return append([]look(nil), looks...)
}
