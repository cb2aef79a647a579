package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// collectorBounds holds the bounds for GOGC, the growth in percent after which Go collects garbage. With Go's default
// of 100, the collector runs very often on a proxy's small heap. A percentage that suits a small heap would triple a
// large heap.
//
// A memory limit (GOMEMLIMIT) does not help, because the limit includes the gaps between small objects, and a server
// with thousands of lessons starts with many gaps.
type collectorBounds struct {
	maxGrowth int    // maximum growth in percent, for a small heap
	minGrowth int    // minimum growth, for a large heap
	minGoal   uint64 // a small heap grows to this many bytes before a collection
	maxSlack  uint64 // maximum growth of a medium heap in bytes
}

// serverBounds returns the bounds for a server, and for commands that do not call keepHeapSmall.
func serverBounds() collectorBounds { return collectorBounds{250, 25, 68 << 20, 20 << 20} }

// readerBounds returns the bounds for a command that reads a long file into memory. A collection is cheap, because the
// bytes of a file contain no pointers.
func readerBounds() collectorBounds { return collectorBounds{100, 7, 32 << 20, 4 << 20} }

// growth returns GOGC for a live heap with the given number of bytes.
func (b collectorBounds) growth(live uint64) int {
	slack := b.maxSlack
	if live < b.minGoal {
		slack = max(slack, b.minGoal-live)
	}
	percent := int(slack * 100 / max(live, 1)) //nolint:gosec // slack is below 100 MiB, so 100 times slack fits into an int
	return min(max(percent, b.minGrowth), b.maxGrowth)
}

// tuneCollector applies serverBounds until the process ends, unless the environment sets GOGC.
func tuneCollector(env func(string) (string, bool)) {
	if _, set := env("GOGC"); !set {
		b := serverBounds()
		debug.SetGCPercent(b.maxGrowth)
		b.afterCollection(b.maxGrowth)
	}
}

// afterCollection sets GOGC after each garbage collection, in the cleanup of an unreachable object. It stops when GOGC
// differs from last, because then another caller has changed GOGC.
func (b collectorBounds) afterCollection(last int) {
	next, ok := b.setForLiveHeap(last)
	if !ok {
		return
	}
	type mark struct{ _ *int } // the runtime may delay cleanups for small objects without a pointer
	runtime.AddCleanup(&mark{}, b.afterCollection, next)
}

// setForLiveHeap sets GOGC; ok is false if another caller has changed GOGC.
func (b collectorBounds) setForLiveHeap(last int) (next int, ok bool) {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	if sample[1].Value.Uint64() != uint64(last) { //nolint:gosec // last is a positive percentage
		return last, false
	}
	next = b.growth(sample[0].Value.Uint64())
	if next <= last+last/8 && next >= last-last/8 { // setting GOGC stops the world for a few microseconds
		return last, true
	}
	debug.SetGCPercent(next)
	return next, true
}

// heapCheckInterval is how often keepHeapSmall checks the live heap. Without these checks, memory would double after
// the allocation of a long file.
const heapCheckInterval = 10 * time.Millisecond

// keepHeapSmall applies readerBounds until the caller calls restore, unless the environment sets GOGC.
func keepHeapSmall(env func(string) (string, bool)) (restore func()) {
	if _, set := env("GOGC"); set {
		return func() {}
	}
	b := readerBounds()
	previous := debug.SetGCPercent(b.maxGrowth)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(heapCheckInterval)
		defer tick.Stop()
		for last := b.maxGrowth; ; {
			select {
			case <-stop:
				return
			case <-tick.C:
				last, _ = b.setForLiveHeap(last)
			}
		}
	}()
	return func() {
		close(stop)
		<-ended
		debug.SetGCPercent(previous)
	}
}
