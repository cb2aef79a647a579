package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// tuneCollector raises GOGC above 100 while the live heap is small. If the environment sets GOGC, tuneCollector leaves
// the value as it is.
func TestGOGCFollowsLiveHeap(t *testing.T) {
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	tuneCollector(func(string) (string, bool) { return "", true })
	if p := readGOGC(); p != 100 {
		t.Fatalf("with GOGC set in the environment: got GOGC = %d, want 100, unchanged", p)
	}

	tuneCollector(func(string) (string, bool) { return "", false })
	if l := debug.SetMemoryLimit(-1); l != limit {
		t.Fatalf("after tuneCollector: got memory limit %d, want %d, unchanged", l, limit)
	}
	high := collectUntil(t, "above 100", func(p uint64) bool { return p > 100 })
	liveHeap := make([]byte, 300<<20)
	collectUntil(t, "at most half of the first value", func(p uint64) bool { return p <= high/2 })
	runtime.KeepAlive(liveHeap)
	liveHeap = nil //nolint:ineffassign,wastedassign // the collector may free the memory
	collectUntil(t, "at least 75% of the first value", func(p uint64) bool { return p >= high-high/4 })
}

// readGOGC returns the garbage collector's current GOGC in percent.
func readGOGC() uint64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// collectUntil collects garbage until accept returns true. If accept never does, the failure message names want, a
// description of the accepted values.
func collectUntil(t *testing.T, want string, accept func(percent uint64) bool) uint64 {
	t.Helper()
	for range 6000 {
		runtime.GC()
		if percent := readGOGC(); accept(percent) {
			return percent
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("after 6000 collections: got GOGC = %d, want %s", readGOGC(), want)
	return 0
}

func TestServerHeapGrowthFallsWithLiveHeap(t *testing.T) {
	for liveMiB, want := range map[uint64]int{0: 250, 10: 250, 19: 250, 24: 183, 36: 88, 48: 41, 64: 31, 80: 25, 200: 25, 4000: 25} {
		if got := serverBounds().growth(liveMiB << 20); got != want {
			t.Errorf("growth(%d MiB) = %d%%, want %d%%", liveMiB, got, want)
		}
	}
}
