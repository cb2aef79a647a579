package trial_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"precept/trial"
)

func close6(got, want float64) bool { return math.Abs(got-want) < 1e-6 }

func TestMaximaRiseAndStay(t *testing.T) {
	c := trial.NewCounters()
	now := time.Unix(86_400*100, 0)
	a := trial.Assignment{Decided: true, ControlP: 0.05, Matched: []trial.Match{{Arm: "a@1"}}}
	win := func(injected bool) {
		a.Picks = []trial.Pick{{Slug: "a", Arm: "a@1", Eps: 0.2, Injected: injected, Off: 0.5, C: 0.5}}
	}
	if got := c.Maxima(now); len(got) != 0 {
		t.Fatalf("%v out of nothing", got)
	}
	var all []trial.Delta
	var done [][]trial.Delta
	for i := range 400 {
		win(i%5 != 0)
		y := 1.0
		if i%5 == 0 {
			y = 0
		}
		done = append(done, a.Contribution(y, 1))
		c.Add(done[i])
		all = append(all, c.Maxima(now)...)
	}
	s := c.Stats("a@1")
	if s.LogUp < 5 || s.LogDown > 0.1 || s.ProvenAt != now.Unix() || s.OutUp < 5 {
		t.Fatalf("E+ %v, E- %v, proven at %v, out %v", s.LogUp, s.LogDown, s.ProvenAt, s.OutUp)
	}
	if p := c.Progress("a@1", 0, "", 0); !p.Proven || !p.Settled {
		t.Error("a proven lesson keeps its large holdout")
	}
	for _, d := range all {
		if !d.Monotone() || d.Day != 0 || d.Scope != "a@1" {
			t.Fatalf("%v is no maximum of the lesson", d)
		}
	}
	// Another replica that only hears of the maxima believes the same; order and repetition do not
	// matter.
	other := trial.NewCounters()
	for _, d := range slices.Backward(all) {
		other.Raise([]trial.Delta{d})
	}
	other.Raise(all)
	if o := other.Stats("a@1"); o.LogUp != s.LogUp || o.LogDown != s.LogDown || o.ProvenAt != s.ProvenAt || o.OutUp != s.OutUp {
		t.Errorf("merged maxima differ: %+v", o)
	}
	other.Raise(done[0]) // no maxima: not for Raise
	if other.Stats("a@1").N != 0 {
		t.Error("Raise added to sums")
	}
	// Undoing everything takes the sums back, not the evidence once reached.
	for _, d := range done {
		c.Add(trial.Negate(d))
	}
	if got := c.Maxima(now); len(got) != 0 || c.Stats("a@1").LogUp != s.LogUp || c.Stats("a@1").N != 0 {
		t.Errorf("%v %+v", got, c.Stats("a@1"))
	}
	// What a store loads in one go is looked at once.
	loaded := trial.NewCounters()
	for _, d := range done {
		loaded.Add(d)
	}
	if got := loaded.Maxima(now); len(got) != 3 || got[0].Field != "emax+" || got[1].Field != "proven_at" || got[2].Field != "out+" {
		t.Errorf("%v", got)
	}
}

func TestDiscoveries(t *testing.T) {
	for _, k := range []struct {
		p     []float64
		tests int
		want  float64
	}{
		{nil, 10, -1},
		{[]float64{0.04}, 1, 0.04},
		{[]float64{0.04}, 2, -1},
		{[]float64{0.02}, 2, 0.02},
		{[]float64{0.001, 0.009, 0.04}, 10, 0.009}, // 0.005, 0.010, 0.015
		{[]float64{0.006, 0.009}, 10, 0.009},       // the first fails alone and is carried by the second
		{[]float64{0.01}, 0, 0.01},
	} {
		if got := trial.Discoveries(k.p, k.tests, 0.05); got != k.want {
			t.Errorf("%v of %d: %v, want %v", k.p, k.tests, got, k.want)
		}
		next := trial.NextDiscovery(k.p, k.tests, 0.05)
		one := append(slices.Clone(k.p), next)
		slices.Sort(one)
		if trial.Discoveries(one, k.tests, 0.05) < next {
			t.Errorf("%v of %d: one more at %v is no discovery", k.p, k.tests, next)
		}
		if alone := []float64{next * 1.001}; len(k.p) == 0 && trial.Discoveries(alone, k.tests, 0.05) > 0 {
			t.Errorf("of %d: %v is a discovery, too", k.tests, alone)
		}
	}
	if trial.PValue(0) != 1 || trial.PValue(-3) != 1 || !close6(trial.PValue(math.Log(40)), 0.025) {
		t.Error("p = 1/E")
	}
}

// What is read of an arm is what was added, and a copy goes its own way.
func TestStatsAndClone(t *testing.T) {
	c := trial.NewCounters()
	a := sampleAssignment()
	c.Add(a.Closing())
	c.Add(a.Contribution(1, 2))
	c.Advance(20001)
	s := c.Stats("in@1")
	if s.M1 != 1 || s.Y1 != 1 || s.Matched != 1 || s.Picked != 1 || s.Tokens != 30 || s.Success != 1 || len(s.Days) != 1 || s.Days[0].N1 != 1 {
		t.Errorf("%+v", s)
	}
	if len(s.Strata) != 1 || s.Strata[0].Eps != 0.2 || s.Strata[0].Assigned != [2]int64{0, 1} || s.Strata[0].Told[1][2] != 1 || s.Strata[0].ToldOn(1) != 1 {
		t.Errorf("%+v", s.Strata)
	}
	if math.Abs(s.Recent-0.5) > 1e-9 {
		t.Errorf("one pick in two days is %v a day", s.Recent)
	}
	if g := c.Global(); g.Told != 1 || g.SumY != 1 || g.Days[0].S1 != 1 || g.Strata[0].Assigned != [2]int64{0, 1} {
		t.Errorf("%+v", g)
	}
	d := c.Clone()
	d.Add(a.Contribution(0, 2))
	if c.Stats("in@1").M1 != 1 || d.Stats("in@1").M1 != 2 || d.Global().Told != 2 || c.Global().Told != 1 {
		t.Error("a clone shares counters")
	}
}

// What a session cost goes to the arm in which each lesson was, to the token, however long it was.
func TestSpent(t *testing.T) {
	a := &trial.Assignment{Picks: []trial.Pick{{Arm: "in@1", Eps: 0.2, Injected: true}, {Arm: "out@1", Eps: 0.5}, {Arm: "sure@1", Injected: true}}}
	c := trial.NewCounters()
	c.Add(a.Spent(trial.Usage{Input: 123_456_789, Cached: 100_000_001}))
	c.Add(a.Spent(trial.Usage{Input: 11, Cached: 12})) // more than there is: a broken upstream
	c.Add(a.Spent(trial.Usage{}))                      // it did not say
	want := trial.Spending{2, 123_456_800, 100_000_012}
	if got := c.Stats("in@1").Spent; got != [2]trial.Spending{1: want} {
		t.Errorf("injected: %+v", got)
	}
	if got := c.Stats("out@1").Spent; got != [2]trial.Spending{0: want} {
		t.Errorf("withheld: %+v", got)
	}
	if got := c.Stats("sure@1").Spent; got != [2]trial.Spending{} {
		t.Errorf("without a coin: %+v", got)
	}
	a.Excluded = true
	if got := a.Spent(trial.Usage{Input: 1}); got != nil {
		t.Errorf("excluded: %v", got)
	}
}

func BenchmarkContribution(b *testing.B) {
	a := sampleAssignment()
	b.ReportAllocs()
	for b.Loop() {
		a.Contribution(1, 1)
	}
}
