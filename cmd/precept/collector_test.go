package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// GOGC, the growth of the heap in percent before a collection, follows the live heap in both directions. GOGC in the
// environment takes precedence.
func TestGOGCFollowsTheLiveHeap(t *testing.T) {
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	tuneCollector(func(string) (string, bool) { return "", true })
	if p := readGOGC(); p != 100 {
		t.Fatalf("with GOGC in the environment tuneCollector sets GOGC to %d, want 100 as before", p)
	}

	tuneCollector(func(string) (string, bool) { return "", false })
	if l := debug.SetMemoryLimit(-1); l != limit {
		t.Fatalf("tuneCollector changes the memory limit to %d, want %d as before", l, limit)
	}
	high := collectUntil(t, "above 100", func(p uint64) bool { return p > 100 })
	load := make([]byte, 300<<20)
	collectUntil(t, "at most half with 300 MiB more", func(p uint64) bool { return p <= high/2 })
	runtime.KeepAlive(load)
	load = nil //nolint:ineffassign,wastedassign // the collector may free the memory
	collectUntil(t, "near the first value without the 300 MiB", func(p uint64) bool { return p >= high-high/4 })
}

// readGOGC returns GOGC, the target growth of the heap in percent.
func readGOGC() uint64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// collectUntil collects garbage until right returns true for GOGC, and returns GOGC. want describes the value.
func collectUntil(t *testing.T, want string, right func(percent uint64) bool) uint64 {
	t.Helper()
	for range 6000 {
		runtime.GC()
		if percent := readGOGC(); right(percent) {
			return percent
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("GOGC is %d after 6000 collections, want a value %s", readGOGC(), want)
	return 0
}

// The growth limit falls from 250% for a small live heap to 25% for a large live heap.
func TestGrowthLimitFallsWithTheLiveHeap(t *testing.T) {
	for live, want := range map[uint64]int{0: 250, 10: 250, 19: 250, 24: 183, 36: 88, 48: 41, 64: 31, 80: 25, 200: 25, 4000: 25} {
		if got := serverBounds().growth(live << 20); got != want {
			t.Errorf("with a live heap of %d MiB the growth limit is %d%%, want %d%%", live, got, want)
		}
	}
}
