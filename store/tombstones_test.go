package store

import (
	"testing"
	"time"

	"precept/internal/session"
)

// If two times have monotonic clock readings, Go compares only these readings, which do not change when the clock is
// set back. If a tombstone (the time of a deletion) had such a reading, the store could misjudge whether content is
// older than the deletion.
func TestTombstonesHaveNoMonotonicReading(t *testing.T) {
	deletion := time.Now()
	stones := tombstones{sessions: map[session.ID]tombstone{}, tenants: map[string]tombstone{}}
	stones.finish(&session.Erasure{Tenant: "a", At: deletion})
	for name, now := range map[string]time.Time{"deletion": deletion, "clock set back": deletion.Add(-time.Hour)} {
		stones.correctClock(now)
		stone := stones.tenants["a"]
		for _, at := range []time.Time{stone.deletedAt, stone.originalTime, stones.now} {
			if at != at.Round(0) { //nolint:staticcheck,revive // == also compares the readings
				t.Errorf("%s: got the time %v with a monotonic clock reading, want a time without one", name, at)
			}
		}
	}
}
