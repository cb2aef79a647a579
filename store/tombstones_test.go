package store

import (
	"testing"
	"time"

	"precept/internal/session"
)

// Go compares only the monotonic readings of two times, and these do not change when the clock is set back.
func TestTombstonesHaveNoMonotonicReading(t *testing.T) {
	deletion := time.Now()
	stones := tombstones{sessions: map[session.ID]tombstone{}, tenants: map[string]tombstone{}}
	stones.finish(&session.Erasure{Tenant: "a", At: deletion})
	for name, now := range map[string]time.Time{"deletion": deletion, "clock set back": deletion.Add(-time.Hour)} {
		stones.correctClock(now)
		stone := stones.tenants["a"]
		for _, at := range []time.Time{stone.deletedAt, stone.originalTime, stones.now} {
			if at != at.Round(0) { //nolint:staticcheck,revive // == also compares the readings
				t.Errorf("%s: %v has a monotonic reading", name, at)
			}
		}
	}
}
