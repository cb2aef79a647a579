package store

import (
	"testing"
	"time"
)

// The lag is the age of what the backend does not have, and nothing when it has all.
func TestLag(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.record()
	same(t, "at the beginning", r.Lag(), 0)
	r.be.failNext("write", 1<<20, errDown)
	r.converse("one").turn(1, nil)
	r.clk.add(10 * time.Second)
	r.record()
	if lag := r.Lag(); lag < 10*time.Second || lag > 20*time.Second {
		t.Errorf("while the backend is down: %v", lag)
	}
	if r.SpoolBytes() == 0 {
		t.Error("the spool is empty")
	}
	r.be.failNext("write", 0, nil)
	r.clk.add(10 * time.Second)
	r.record()
	r.record()
	same(t, "when it is back", r.Lag(), 0)
}
