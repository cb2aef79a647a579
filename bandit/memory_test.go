//go:build !race

package bandit_test

import (
	"fmt"
	"runtime"
	"testing"

	"precept/bandit"
	"precept/bandit/trial"
)

// A process with 50 tenants and 2,000 lessons per tenant keeps the evidence about 100,000 lessons in memory (decision
// 65), so the memory per lesson must be small.
func TestChooserMemoryPerLesson(t *testing.T) {
	const lessons = 500
	bytesPerLesson := func(add func(c *bandit.Chooser, arm trial.Arm)) int {
		chooser := bandit.New()
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range lessons {
			add(chooser, trial.Arm(fmt.Sprintf("lesson-%04d@0123456789ab", i)))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(chooser)
		n := (int(after.HeapAlloc) - int(before.HeapAlloc)) / lessons //nolint:gosec // bytes
		t.Log(n, "bytes")
		return n
	}
	session := func(arm trial.Arm) *trial.Assignment {
		return &trial.Assignment{
			Category: "coder", Base: .5, Centre: .5, Decided: true, Day: 22740, Matched: []trial.Match{{Arm: arm, MatchEffect: .01}},
			Picks: []trial.Pick{{Slug: arm.Slug(), Arm: arm, Eps: .2, Injected: true, MeanEffect: .02, Offset: .51, Centre: .52, Tokens: 40, Turn: 1}},
		}
	}
	if n := bytesPerLesson(func(c *bandit.Chooser, arm trial.Arm) {
		c.Posterior(bandit.Action{Arm: arm, Slug: arm.Slug()})
		c.DropProvisional(c.AddProvisional(&trial.Assignment{}, 1, 1))
	}); n > 64 { // includes a few KB allocated by the runtime
		t.Errorf("lesson without evidence takes %d bytes, want at most 64", n)
	}
	if n := bytesPerLesson(func(c *bandit.Chooser, arm trial.Arm) {
		a := session(arm)
		c.Add(append(a.ClosingDeltas(), bandit.Contribution(a, 1, 1)...))
	}); n > 600 {
		t.Errorf("lesson with evidence from one session takes %d bytes, want at most 600", n)
	}
	if n := bytesPerLesson(func(c *bandit.Chooser, arm trial.Arm) {
		a := session(arm)
		for range 60 {
			a.Day++
			c.Add(append(a.ClosingDeltas(), bandit.Contribution(a, 1, 1)...))
		}
	}); n > 4000 {
		t.Errorf("lesson with evidence on 60 days takes %d bytes, want at most 4,000", n)
	}
}
