package server

import (
	"runtime"
	"testing"
)

// A server that is idle gives its memory back, and one that works is left to the collector.
func TestIdle(t *testing.T) {
	forced := func() uint32 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NumForcedGC
	}
	i, was := idle{allocated()}, forced()
	i.look()
	if forced() != was+1 {
		t.Error("a server that did nothing kept what lay about")
	}
	was = forced()
	for range idleBytes >> 20 {
		runtime.KeepAlive(make([]byte, 1<<20))
	}
	i.look()
	if forced() != was {
		t.Error("a server at work was stopped to be collected")
	}
	i.look()
	if forced() != was+1 {
		t.Error("a server that came to rest kept what lay about")
	}
}
