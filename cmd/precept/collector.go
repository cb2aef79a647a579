package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// How much may lie about before the collector runs, unless GOGC says it. A proxy's live heap is
// small: with Go's default of 100% it would be collected all the time, and a share that serves a
// small heap lets a large one double for nothing. So the share follows what is live: mostGrowth of
// little, up to leastGoal in all; then mostSlack, and leastGrowth of very much.
//
// It is a share and not a limit on memory (debug.SetMemoryLimit), because a limit counts the gaps
// between small objects as well, of which a server with thousands of lessons has many after its
// start: a limit just above what is live then collects without end.
const (
	mostGrowth  = 250 // percent
	leastGrowth = 25  // percent
	leastGoal   = 64 << 20
	mostSlack   = 32 << 20
)

// growth is the share, in percent, by which a heap of so many live bytes may grow.
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

// afterCollection looks at the share now, and when a collection has found that nobody holds the
// mark. Of a mark that was made while a collection was under way the next one tells: that may be
// late by one, where looking by the clock as well was measured to bound a burst no better.
func afterCollection() {
	followHeap()
	type mark struct{ _ *int }
	runtime.AddCleanup(&mark{}, func(struct{}) { afterCollection() }, struct{}{})
}

// followHeap sets the share for what is live now.
func followHeap() {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	now, was := growth(sample[0].Value.Uint64()), int(sample[1].Value.Uint64()) //nolint:gosec // a percentage
	if now > was+was/8 || now < was-was/8 {                                     // it stops the world, for some microseconds
		debug.SetGCPercent(now)
	}
}
