package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// collectorBounds define GOGC, the growth of the heap in percent after which the garbage collector runs, as a function
// of the live heap. The heap of a proxy is small: with Go's default of 100 the collector would run all the time. A
// percentage that suits a small heap would triple a large heap for no gain.
//
// A memory limit (debug.SetMemoryLimit) is no alternative. The limit also counts the gaps between small
// objects, of which a server with thousands of lessons has many after the start. With a limit just above the
// live heap the collector would run without end.
type collectorBounds struct {
	maxGrowth int    // maximum growth in percent, for a small heap
	minGrowth int    // minimum growth in percent, for a large heap
	minGoal   uint64 // bytes up to which a small heap may grow
	maxSlack  uint64 // bytes of growth of a heap between small and large
}

// serverBounds returns the bounds of a server and of all commands that do not call keepHeapSmall.
func serverBounds() collectorBounds { return collectorBounds{250, 25, 68 << 20, 20 << 20} }

// readerBounds returns the bounds of a command that reads a long file into memory. The text of the file has no
// pointers, so a collection is cheap.
func readerBounds() collectorBounds { return collectorBounds{100, 7, 32 << 20, 4 << 20} }

// growth returns the growth limit in percent for a heap with the given live bytes.
func (b collectorBounds) growth(live uint64) int {
	slack := b.maxSlack
	if live < b.minGoal {
		slack = max(slack, b.minGoal-live)
	}
	percent := int(slack * 100 / max(live, 1)) //nolint:gosec // far below the largest integer
	return min(max(percent, b.minGrowth), b.maxGrowth)
}

// tuneCollector applies serverBounds for the life of the process, unless GOGC is set.
func tuneCollector(env func(string) (string, bool)) {
	if _, set := env("GOGC"); !set {
		b := serverBounds()
		debug.SetGCPercent(b.maxGrowth)
		b.afterCollection(b.maxGrowth)
	}
}

// afterCollection sets GOGC now and after each collection. The cleanup of an unreachable object reports the
// end of a collection, at times one collection late. last is the GOGC that was set last. If another caller
// has set GOGC since, afterCollection ends.
func (b collectorBounds) afterCollection(last int) {
	next, ok := b.followHeap(last)
	if !ok {
		return
	}
	type mark struct{ _ *int }
	runtime.AddCleanup(&mark{}, b.afterCollection, next)
}

// followHeap sets GOGC for the present live heap and returns it. ok is false if GOGC differs from last,
// because another caller has set it.
func (b collectorBounds) followHeap(last int) (next int, ok bool) {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	if sample[1].Value.Uint64() != uint64(last) { //nolint:gosec // a percentage
		return last, false
	}
	next = b.growth(sample[0].Value.Uint64())
	if next <= last+last/8 && next >= last-last/8 { // setting GOGC stops the world for some microseconds
		return last, true
	}
	debug.SetGCPercent(next)
	return next, true
}

// readerEvery is the pause between two reads of the live heap of a command that reads a long file: the text of
// the file is one large allocation, after which the GOGC of a small heap would double the memory.
const readerEvery = 10 * time.Millisecond

// keepHeapSmall applies readerBounds until the returned function is called, unless GOGC is set.
func keepHeapSmall(env func(string) (string, bool)) (restore func()) {
	if _, set := env("GOGC"); set {
		return func() {}
	}
	b := readerBounds()
	previous := debug.SetGCPercent(b.maxGrowth)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(readerEvery)
		defer tick.Stop()
		for last := b.maxGrowth; ; {
			select {
			case <-stop:
				return
			case <-tick.C:
				last, _ = b.followHeap(last)
			}
		}
	}()
	return func() {
		close(stop)
		<-ended
		debug.SetGCPercent(previous)
	}
}
