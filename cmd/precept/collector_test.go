package main

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// The limit goes up with what is in use, and down again; the environment is the operator's word.
func TestCollector(t *testing.T) {
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
	t.Cleanup(func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	})
	tuneCollector(func(string) (string, bool) { return "", true })
	if p, l := debug.SetGCPercent(100), debug.SetMemoryLimit(-1); p != 100 || l != limit {
		t.Fatalf("%d%% and a limit of %d although the environment sets both", p, l)
	}

	tuneCollector(func(string) (string, bool) { return "", false })
	low := debug.SetMemoryLimit(-1)
	if low < leastLimit || low == math.MaxInt64 {
		t.Fatalf("limit %d at the start, want at least %d", low, leastLimit)
	}
	load := make([]byte, 300<<20)
	until(t, func(limit int64) bool { return limit >= int64(len(load))+mostSlack })
	runtime.KeepAlive(load)
	load = nil //nolint:ineffassign,wastedassign // what the collector may take
	until(t, func(limit int64) bool { return limit <= low+low/4 })
}

// until collects until the limit is right.
func until(t *testing.T, right func(limit int64) bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		runtime.GC()
		limit := debug.SetMemoryLimit(-1)
		switch {
		case right(limit):
			return
		case time.Now().After(end):
			t.Fatalf("the limit stays at %d", limit)
		}
	}
}

// What may lie about is bounded by number as well.
func TestHeapLimit(t *testing.T) {
	for use, want := range map[int64]int64{0: 96, 38: 96, 60: 96, 70: 102, 100: 132, 200: 250, 1000: 1250} {
		if got := heapLimit(use << 20); got != want<<20 {
			t.Errorf("%d MiB in use: %d, want %d", use, got>>20, want)
		}
	}
}
