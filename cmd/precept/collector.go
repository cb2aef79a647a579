package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Bounds of the garbage that may exist before the collector runs, unless GOGC is set. The live heap
// of a proxy is small. With Go's default of 100% the collector would run all the time; a share that
// suits a small heap would double a large heap for no gain. The share therefore depends on the live
// heap: mostGrowth of a small heap, up to a goal of leastGoal; then mostSlack bytes; and
// leastGrowth of a very large heap.
//
// A memory limit (debug.SetMemoryLimit) does not fit: the limit also counts the gaps between small
// objects, and a server with thousands of lessons has many gaps after the start. A limit just above
// the live heap would then collect without end.
const (
	mostGrowth  = 250 // percent
	leastGrowth = 25  // percent
	leastGoal   = 64 << 20
	mostSlack   = 32 << 20
)

// growth returns the growth limit in percent for a heap with the given live bytes.
func growth(live uint64) int {
	slack := uint64(mostSlack)
	if live < leastGoal {
		slack = max(slack, leastGoal-live)
	}
	percent := slack * 100 / max(live, 1)
	return int(min(max(percent, leastGrowth), mostGrowth)) //nolint:gosec // at most mostGrowth
}

func tuneCollector(env func(string) (string, bool)) {
	if _, set := env("GOGC"); !set {
		debug.SetGCPercent(mostGrowth)
		afterCollection()
	}
}

// afterCollection sets the share now and after each collection, which clears an unreachable mark. A
// mark that was made during a collection is cleared by the next collection, so the share may be one
// collection late. A measurement showed that a timer in addition bounds a burst no better.
func afterCollection() {
	followHeap()
	type mark struct{ _ *int }
	runtime.AddCleanup(&mark{}, func(struct{}) { afterCollection() }, struct{}{})
}

// followHeap sets the share for the present live heap.
func followHeap() {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	now, was := growth(sample[0].Value.Uint64()), int(sample[1].Value.Uint64()) //nolint:gosec // a percentage
	if now > was+was/8 || now < was-was/8 {                                     // setting the share stops the world for some microseconds
		debug.SetGCPercent(now)
	}
}
