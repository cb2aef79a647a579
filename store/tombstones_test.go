package store

import (
	"testing"
	"time"

	"precept/internal/session"
)

// If two times have monotonic readings, Go compares the readings, which do not show that the clock was set back. A
// deletion would then seem to be in the past, and new content would seem to be older than the deletion.
func TestTombstonesHaveNoMonotonicReading(t *testing.T) {
	deletion := time.Now()
	stones := tombstones{sessions: map[session.ID]tombstone{}, tenants: map[string]tombstone{}}
	stones.finish(&session.Erasure{Tenant: "a", At: deletion})
	for name, now := range map[string]time.Time{"deletion": deletion, "clock set back": deletion.Add(-time.Hour)} {
		stones.correctClock(now)
		stone := stones.tenants["a"]
		for _, at := range []time.Time{stone.deletedAt, stone.originalTime, stones.now} {
			if at != at.Round(0) { //nolint:staticcheck,revive // == also compares the readings
				t.Errorf("%s: got the time %v, want no monotonic reading", name, at)
			}
		}
	}
}
