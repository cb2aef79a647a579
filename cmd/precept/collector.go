package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// collectorBounds limit the garbage that may exist before the collector runs, unless GOGC is set. The live heap
// of a proxy is small. With Go's default of 100% the collector would run all the time; a share that
// suits a small heap would double a large heap for no gain. The share therefore depends on the live
// heap: mostGrowth of a small heap, up to a goal of leastGoal; then mostSlack bytes; and
// leastGrowth of a very large heap.
//
// A memory limit (debug.SetMemoryLimit) does not fit: the limit also counts the gaps between small
// objects, and a server with thousands of lessons has many gaps after the start. A limit just above
// the live heap would then collect without end.
type collectorBounds struct {
	mostGrowth, leastGrowth int // percent
	leastGoal, mostSlack    uint64
}

// serverBounds are the bounds of a server and of all verbs that set no others.
func serverBounds() collectorBounds { return collectorBounds{250, 25, 70 << 20, 36 << 20} }

// readerBounds are the bounds of a verb that reads a long file into memory. The text of the file has no
// pointers, so a collection is cheap.
func readerBounds() collectorBounds { return collectorBounds{100, 10, 32 << 20, 6 << 20} }

// growth returns the growth limit in percent for a heap with the given live bytes.
func (b collectorBounds) growth(live uint64) int {
	slack := b.mostSlack
	if live < b.leastGoal {
		slack = max(slack, b.leastGoal-live)
	}
	percent := int(slack * 100 / max(live, 1)) //nolint:gosec // far below the largest integer
	return min(max(percent, b.leastGrowth), b.mostGrowth)
}

func tuneCollector(env func(string) (string, bool)) {
	if _, set := env("GOGC"); !set {
		b := serverBounds()
		debug.SetGCPercent(b.mostGrowth)
		b.afterCollection(b.mostGrowth)
	}
}

// afterCollection sets the share now and after each collection, which clears an unreachable mark. A mark that was
// made during a collection is cleared by the next collection, so the share may be one collection late. An additional
// timer did not limit a burst of allocations any better. was is the share that was set last; a share that a verb sets
// stays.
func (b collectorBounds) afterCollection(was int) {
	now, ok := b.followHeap(was)
	if !ok {
		return
	}
	type mark struct{ _ *int }
	runtime.AddCleanup(&mark{}, b.afterCollection, now)
}

// followHeap sets the share for the present live heap, and returns the share. followHeap returns false if
// the share is not the share that was set last.
func (b collectorBounds) followHeap(was int) (now int, ok bool) {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	if sample[1].Value.Uint64() != uint64(was) { //nolint:gosec // a percentage
		return was, false
	}
	now = b.growth(sample[0].Value.Uint64())
	if now <= was+was/8 && now >= was-was/8 { // setting the share stops the world for some microseconds
		return was, true
	}
	debug.SetGCPercent(now)
	return now, true
}

// keepHeapSmall applies readerBounds until the returned function is called, unless GOGC is set.
func keepHeapSmall(env func(string) (string, bool)) (restore func()) {
	if _, set := env("GOGC"); set {
		return func() {}
	}
	b := readerBounds()
	was := debug.SetGCPercent(b.mostGrowth)
	b.afterCollection(b.mostGrowth)
	return func() { debug.SetGCPercent(was) }
}
