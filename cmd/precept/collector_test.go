package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// The share follows the live heap in both directions. GOGC in the environment takes precedence.
func TestCollectorShareFollowsTheLiveHeap(t *testing.T) {
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	tuneCollector(func(string) (string, bool) { return "", true })
	if p := collectorShare(); p != 100 {
		t.Fatalf("%d%% although the environment sets it, want 100", p)
	}

	tuneCollector(func(string) (string, bool) { return "", false })
	if l := debug.SetMemoryLimit(-1); l != limit {
		t.Fatalf("a limit of %d: just above the live heap, the collector runs without end", l)
	}
	high := untilShare(t, func(p uint64) bool { return p > 100 })
	load := make([]byte, 300<<20)
	untilShare(t, func(p uint64) bool { return p <= high/2 })
	runtime.KeepAlive(load)
	load = nil //nolint:ineffassign,wastedassign // what the collector may take
	untilShare(t, func(p uint64) bool { return p >= high-high/4 })
}

// collectorShare returns the target growth of the heap in percent.
func collectorShare() uint64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// untilShare collects until the share is right.
func untilShare(t *testing.T, right func(percent uint64) bool) uint64 {
	t.Helper()
	for range 6000 {
		runtime.GC()
		if percent := collectorShare(); right(percent) {
			return percent
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("the share of the collector is unchanged after the wait, want the share of the live heap")
	return 0
}

// The garbage is bounded in bytes too, and is never close to zero.
func TestCollectorBoundsGarbageInBytes(t *testing.T) {
	for live, want := range map[uint64]int{0: 250, 10: 250, 19: 250, 24: 183, 36: 88, 48: 41, 64: 31, 80: 25, 200: 25, 4000: 25} {
		if got := serverBounds().growth(live << 20); got != want {
			t.Errorf("%d MiB live: %d%%, want %d%%", live, got, want)
		}
	}
}
