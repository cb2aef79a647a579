package trial_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"precept/trial"
)

// toldSession is a session of a planned trial, as its record says it.
type toldSession struct {
	name string
	a    trial.Assignment
	y    float64
}

// trialSessions play sessions of one lesson in a planned trial.
func trialSessions(n int, name string, effect float64, seed uint64) []toldSession {
	r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // tests repeat
	var out []toldSession
	for i := range n {
		s := toldSession{name: fmt.Sprintf("%08x-session", i*7919), a: trial.Assignment{Category: "x", At: int64(1000 + i/3), Day: int32(i / 100)}}
		salt := fmt.Sprint(seed)
		s.a.Open(salt, s.name, 0)
		s.a.Flip(salt, s.name, trial.Pick{Slug: "a", Arm: "a@1", Eps: 0.5, C: 0.5, Trial: name})
		chance := 0.5
		if s.a.Picks[0].Injected {
			chance += effect
		}
		if r.Float64() < chance {
			s.y = 1
		}
		out = append(out, s)
	}
	return out
}

// The look stands at exactly the first N told picks in the order in which their sessions began, in
// whatever order they were counted, on how many replicas they were, and however many came later.
func TestAPlannedLookIsTheSameForEverybody(t *testing.T) {
	name := trial.Name(time.Unix(900, 0), 200)
	all := trialSessions(500, name, 0.2, 7)
	var z, zz float64
	var n, injected int64
	for _, s := range all { // by hand
		for _, p := range s.a.Picks {
			if n == 200 {
				continue
			}
			x := -(s.y - p.C) / p.Eps
			if p.Injected {
				x = (s.y - p.C) / (1 - p.Eps)
				injected++
			}
			n, z, zz = n+1, z+x, zz+x*x
		}
	}
	r := rand.New(rand.NewPCG(3, 1)) //nolint:gosec // tests repeat
	for round := range 5 {
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		c, parts := trial.NewCounters(), [2][]trial.Delta{}
		for i := range all {
			parts[i%2] = append(parts[i%2], all[i].a.Looked(all[i].name, all[i].y)...)
			if l := c.Looks(); i == 20 && len(l) > 0 && l[0].Taken {
				t.Fatal("it was taken too soon")
			}
			c.Add(all[i].a.Looked(all[i].name, all[i].y))
		}
		if round == 4 { // what two replicas wrote, read by a third
			c = trial.NewCounters()
			c.Add(merge(parts[0], parts[1]))
		}
		l := c.Looks()
		if len(l) != 1 || !l[0].Taken || l[0].Planned != 200 || l[0].Injected+l[0].Withheld != 200 || l[0].Injected != injected ||
			math.Abs(l[0].Z-z) > 1e-3 || math.Abs(l[0].ZZ-zz) > 1e-3 {
			t.Fatalf("round %d: %+v, by hand %v %v %v %v", round, l, n, injected, z, zz)
		}
	}
}

// The formulas, by hand: (1.96 + 0.84)^2 * 0.24 * 4 / 0.05^2 = 3014; and back.
func TestPicksFor(t *testing.T) {
	n := trial.PicksFor(0.05, 0.8, 0.05, 0.5, 0.24)
	if n < 3010 || n > 3018 {
		t.Errorf("%d picks", n)
	}
	if d := trial.Detects(n, 0.8, 0.05, 0.5, 0.24); math.Abs(d-0.05) > 1e-4 {
		t.Errorf("and they find %v", d)
	}
	for _, bad := range [][5]float64{{0, 0.8, 0.05, 0.5, 0.24}, {0.05, 1, 0.05, 0.5, 0.24}, {0.05, 0.8, 0, 0.5, 0.24}, {0.05, 0.8, 0.05, 0, 0.24}, {0.05, 0.8, 0.05, 0.5, 0}} {
		if n := trial.PicksFor(bad[0], bad[1], bad[2], bad[3], bad[4]); n != 0 {
			t.Errorf("%v: %d", bad, n)
		}
	}
	if w, always := trial.LookWidth(1000, 1), trial.HalfWidth(1000, 1, trial.TightLesson); w/always < 0.6 || w/always > 0.7 {
		t.Errorf("one look is +-%v, any number +-%v", w, always)
	}
	if p := trial.LookP(0.1, 400, 1); math.Abs(p-0.0455) > 1e-4 { // two standard errors
		t.Errorf("p %v", p)
	}
}

// With the planned picks, the planned look finds what it was to find as often as was said; and what
// does nothing, in one of twenty.
func TestThePowerOfAPlannedLook(t *testing.T) {
	const runs = 300
	n := trial.PicksFor(0.15, 0.8, 0.05, 0.5, 0.25)
	for _, c := range []struct{ effect, least, most float64 }{{0.15, 0.72, 0.88}, {0, 0.01, 0.09}} {
		found := 0
		for run := range uint64(runs) {
			all, k := trialSessions(int(n)+20, trial.Name(time.Unix(1, 0), n), c.effect, run), trial.NewCounters()
			for i := range all {
				k.Add(all[i].a.Looked(all[i].name, all[i].y))
			}
			l := k.Looks()[0]
			e := l.Z / float64(n)
			if l.Taken && trial.LookP(e, float64(n), l.ZZ/float64(n)-e*e) <= 0.05 {
				found++
			}
		}
		if share := float64(found) / runs; share < c.least || share > c.most {
			t.Errorf("effect %v: found in %v of the runs with %d picks", c.effect, share, n)
		}
	}
}

// A planned trial is over for whoever knows of enough told picks: the counted ones, and those that
// the asker has heard of beyond them.
func TestProgressOfAPlannedTrial(t *testing.T) {
	name := trial.Name(time.Unix(900, 0), 60)
	c := trial.NewCounters()
	for _, s := range trialSessions(40, name, 0, 5) {
		c.Add(s.a.Looked(s.name, s.y))
	}
	for open, want := range map[int64]bool{0: false, 19: false, 20: true, 21: true} {
		if got := c.Progress("a@1", 0, name, open).Reached; got != want {
			t.Errorf("%d open: %v", open, got)
		}
	}
	if c.Progress("a@1", 0, "", 100).Reached || c.Progress("b@1", 0, name, 0).Reached || !c.Progress("b@1", 0, name, 60).Reached {
		t.Error("it is of one lesson and one plan")
	}
	if l := c.Clone().Looks(); len(l) != 1 || l[0].Told != 40 {
		t.Errorf("a copy: %+v", l)
	}
}

// A trial by width ends when the interval has been that narrow, and does not begin again when it is
// wider later.
func TestProgressOfATrialByWidth(t *testing.T) {
	c := trial.NewCounters()
	told := func(n int, eps float64) {
		for i := range n {
			a := trial.Assignment{Picks: []trial.Pick{{Arm: "a@1", Eps: eps, Injected: i%2 == 0, C: 0.5}}}
			c.Add(a.Contribution(float64(i/2%2), 1))
		}
	}
	told(500, 0.5)
	if c.Progress("a@1", 0.1, "", 0).Reached {
		t.Error("500 picks are not enough")
	}
	told(700, 0.5)
	if !c.Progress("a@1", 0.1, "", 0).Reached || c.Progress("a@1", 0, "", 0).Reached {
		t.Error("1200 are, for who asked for a width")
	}
	told(100, 0.01)
	if !c.Progress("a@1", 0.1, "", 0).Reached {
		t.Error("its width was reached, and is forgotten")
	}
	fresh := c.Clone()
	if fresh.Progress("a@1", 0.1, "", 0).Reached {
		t.Error("the counters alone are wider now: the test tests nothing")
	}
	fresh = c.Clone()
	fresh.Inherit(c)
	if !fresh.Progress("a@1", 0.1, "", 0).Reached {
		t.Error("reading the counters anew forgot it")
	}
}
