package bandit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"precept/trial"
)

func close6(got, want float64) bool { return math.Abs(got-want) < 1e-6 }

func TestPosteriorIsThePriorWithoutData(t *testing.T) {
	c := New()
	for confidence, want := range map[float64]float64{0.5: 0.01, 1: 0.03, 0.6: 0.014, 0.25: 0.001, 0: 0.001, math.NaN(): 0.01, 7: 0.01} {
		k := lesson("a")
		k.Confidence = confidence
		p := c.Posterior(k)
		if !close6(p.Mean, want) || !close6(p.Var, 0.0016) || p.Match != 0 || p.Probe || p.Proven {
			t.Errorf("confidence %v: %+v, want mean %v", confidence, p, want)
		}
	}
}

// A lesson is benched when it is expected to harm by more than the draw's own spread, and comes
// back when it is not.
func TestBench(t *testing.T) {
	c := New()
	was := Posterior{}
	for range 40 {
		c.Add([]Delta{delta("a@1", fN1, 0, 5*Unit), delta("a@1", fS1, 0, -1*Unit), delta("a@1", fNU, 0, 5*Unit)})
		p := c.Posterior(lesson("a"))
		if p.Probe != (p.Mean < -0.25*math.Sqrt(p.Var)) || p.Mean >= was.Mean && was.Var > 0 {
			t.Fatalf("%+v", p)
		}
		was = p
	}
	if !was.Probe {
		t.Fatalf("200 sessions 20 points below expectation: %+v", was)
	}
	c.Add([]Delta{delta("a@1", fN1, 0, 200*Unit), delta("a@1", fS1, 0, 60*Unit)})
	if p := c.Posterior(lesson("a")); p.Probe {
		t.Errorf("it did well since: %+v", p)
	}
}

// A lesson that had its chances is benched as soon as harm is likelier than not; who matched
// without being picked had none.
func TestBenchOfTheSeasoned(t *testing.T) {
	for _, x := range []struct {
		mean, injected, withheld, unpicked float64
		want                               bool
	}{
		{-0.001, 160, 39, 900, false}, {-0.001, 160, 40, 0, true}, {0.001, 160, 40, 0, false}, {-0.02, 20, 5, 900, true},
	} {
		b := DefaultPriors().update(evidence{n1: x.injected, n0: x.withheld, nu: x.unpicked}, 0.01)
		b.m, b.v = x.mean, 0.02*0.02
		if b.benched() != x.want {
			t.Errorf("%+v", x)
		}
	}
}

// The posterior is the minimum of the penalised squares; solved here by hand on other numbers.
func TestPosteriorSolvesTheNormalEquations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Float64Range(0, 5000)
		s := rapid.Float64Range(-0.5, 0.5)
		e := evidence{n1: n.Draw(t, "n1"), n0: n.Draw(t, "n0"), nu: n.Draw(t, "nu")}
		e.s1, e.s0, e.su = e.n1*s.Draw(t, "r1"), e.n0*s.Draw(t, "r0"), e.nu*s.Draw(t, "ru")
		p := DefaultPriors()
		b := p.update(e, 0.02)
		// d/d(del) and d/d(m) of the log posterior are 0.
		gDel := -b.del/p.W2 + (e.s0+e.su-(e.n0+e.nu)*b.del)/p.Sigma2 + (e.s1-e.n1*(b.del+b.m))/p.Sigma2
		gM := -(b.m-0.02)/p.T02 + (e.s1-e.n1*(b.del+b.m))/p.Sigma2
		if math.Abs(gDel) > 1e-6 || math.Abs(gM) > 1e-6 {
			t.Fatalf("not at the maximum: %v %v", gDel, gM)
		}
		if !(b.v > 0 && b.v <= p.T02+1e-15 && b.delVar > 0 && b.delVar <= p.W2+1e-15) {
			t.Fatalf("variances %v %v", b.v, b.delVar)
		}
	})
}

// An undoing may arrive before its doing: counts below zero must neither be believed nor divide by
// anything.
func TestNegativeCountsAreSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Int64Range(-3*Unit, 3*Unit)
		c := New()
		for _, f := range []string{fN1, fS1, fN0, fS0, fNU, fSU, fN, fZ, fZZ, fM1, fY1, fM0, fY0, fBetter, fWorse, fMatched, "a0@200000", "told1.1@200000", "w+1"} {
			c.Add([]Delta{delta("a@1", f, 0, v.Draw(t, f))})
		}
		for _, f := range []string{fCN, fCS, fTold, fGraded, fRes2, fSumY} {
			c.Add([]Delta{delta("x:x", f, 0, 5*v.Draw(t, f)), delta("", f, 0, 5*v.Draw(t, f))})
		}
		p := c.Posterior(lesson("a"))
		if math.IsNaN(p.Mean+p.Var+p.Match) || p.Var <= 0 || math.Abs(p.Mean) > 20 {
			t.Fatalf("%+v", p)
		}
		if s, f := c.RawCounts("a@1"); s < 0 || f < 0 {
			t.Fatalf("%v %v", s, f)
		}
		a := Assignment{Category: "x"}
		Decide(Config{K: 1, Objective: Raw, Epsilon: 0.2}, c, &a, "s", lessons("a"), 1)
		if a.Base < 0 || a.Base > 1 {
			t.Fatalf("baseline %v", a.Base)
		}
		st := c.Stats("a@1")
		if st.N < 0 || st.M1 < 0 || st.Matched < 0 || st.Strata[0].Assigned[0] < 0 {
			t.Fatalf("%+v", st)
		}
		c.Refit().sane()
		c.Maxima(time.Unix(0, 0))
	})
}

func TestDiscount(t *testing.T) {
	c := New()
	c.Add([]Delta{delta("a@1", fN1, 0, 100*Unit), delta("a@1", fS1, 0, 50*Unit)})
	at := func(day int32, half float64) float64 {
		c.Advance(day, half)
		return c.Posterior(lesson("a")).Mean
	}
	p := DefaultPriors()
	for _, k := range []struct {
		day    int32
		half   float64
		weight float64
	}{{0, 7, 1}, {7, 7, 0.5}, {14, 7, 0.25}, {14, 14, 0.5}, {-5, 7, 1}, {14, 0, 0.25}, {14, math.NaN(), 0.25}, {1000, 7, 0}, {200, 200, 0.5}} {
		want := p.update(evidence{n1: 100 * k.weight, s1: 50 * k.weight}, 0.01).m
		if got := at(k.day, k.half); !close6(got, want) {
			t.Errorf("day %d, half-life %v: %v, want %v", k.day, k.half, got, want)
		}
	}
	c.Advance(7, 7)
	before := c.Posterior(lesson("a")).Mean
	c.Add([]Delta{delta("a@1", fN1, 7, 10*Unit), delta("a@1", fS1, 7, -10*Unit)})
	if after := c.Posterior(lesson("a")).Mean; after >= before {
		t.Errorf("what was added is not seen: %v -> %v", before, after)
	}
}

func TestHalfLife(t *testing.T) {
	for rate, want := range map[float64]float64{0: 1000, -1: 1000, math.NaN(): 1000, 1: 1000, 100: 300, 3000: 10, 1e6: 7} {
		if got := HalfLife(rate); got != want {
			t.Errorf("%v a day: %v days, want %v", rate, got, want)
		}
	}
	c := New()
	for day := range int32(10) {
		c.Add([]Delta{delta("", fClosed, 100+day, 1500*Unit)})
	}
	c.Today(time.Unix(110*86_400, 0))
	if got := c.clock.halfLife; math.Abs(got-30_000/(15_000/11.0)) > 1e-9 {
		t.Errorf("half-life %v days", got)
	}
	if Day(time.Unix(-1, 0)) != 0 || Day(time.Date(2026, 1, 1, 23, 59, 59, 0, time.UTC)) != 20454 || Day(time.Unix(math.MaxInt64, 0)) != math.MaxInt32 {
		t.Error("days are miscounted")
	}
}

func TestHeirs(t *testing.T) {
	c := New()
	good := []Delta{delta("old@1", fN1, 1, 4000*Unit), delta("old@1", fS1, 1, 400*Unit), delta("old@1", fNU, 1, 4000*Unit)}
	bad := []Delta{delta("bad@1", fN1, 1, 4000*Unit), delta("bad@1", fS1, 1, -400*Unit), delta("bad@1", fNU, 1, 4000*Unit)}
	c.Add(good)
	c.Add(bad)
	half := c.Posterior(Candidate{Slug: "old", Arm: "old@1", Confidence: 0.5}).Mean / 2
	for _, k := range []struct {
		what string
		c    Candidate
		want float64
	}{
		{"heir of a good one", Candidate{Slug: "new", Arm: "new@1", Confidence: 0.5, Parent: "old@1"}, half},
		{"heir of a bad one", Candidate{Slug: "new", Arm: "new@1", Confidence: 0.5, Parent: "bad@1"}, 0.01},
		{"heir of an unknown one", Candidate{Slug: "new", Arm: "new@1", Confidence: 0.5, Parent: "gone@1"}, 0.01},
		{"edited, parent named", Candidate{Slug: "old", Arm: "old@2", Confidence: 0.5, Parent: "old@1"}, half},
		{"edited, parent found", Candidate{Slug: "old", Arm: "old@2", Confidence: 0.5}, half},
		{"bad one edited", Candidate{Slug: "bad", Arm: "bad@2", Confidence: 0.5}, 0.001},
		{"newcomer", Candidate{Slug: "x", Arm: "x@1", Confidence: 0.5}, 0.01},
		{"its own parent", Candidate{Slug: "x", Arm: "x@1", Confidence: 0.5, Parent: "x@1"}, 0.01},
	} {
		if got := c.Posterior(k.c).Mean; !close6(got, k.want) {
			t.Errorf("%s: prior mean %v, want %v", k.what, got, k.want)
		}
	}
	if half < 0.03 {
		t.Errorf("the parent's mean is %v: the test tests nothing", 2*half)
	}
	c.Add([]Delta{delta("old@2", fN1, 5, Unit)})
	if got := c.before(Candidate{Slug: "old", Arm: "old@1"}); got != "" {
		t.Errorf("the first text is heir of %s", got)
	}
	if got := c.before(Candidate{Slug: "old", Arm: "old@2"}); got != "old@1" {
		t.Errorf("the second text is heir of %q", got)
	}
	if got := c.before(Candidate{Slug: "old", Arm: "old@3"}); got != "old@2" {
		t.Errorf("the third text is heir of %q", got)
	}
}

// One EM step by hand for a single lesson, and the bounds.
func TestRefit(t *testing.T) {
	c := New()
	if p := c.Refit(); p.Version != 1 || p.Mu0 != 0.01 || !close6(p.T02, 0.0016) || !close6(p.W2, 0.01) {
		t.Errorf("without lessons the priors stay: %+v", p)
	}
	c.Add([]Delta{delta("few@1", fN1, 0, 4*Unit), delta("few@1", fS1, 0, 4*Unit)})
	if p := c.Refit(); p.Mu0 != 0.01 {
		t.Errorf("four injections are no evidence: %+v", p)
	}
	for j := range 40 {
		arm := fmt.Sprintf("l%d@1", j)
		c.Add([]Delta{delta(arm, fN1, 0, 1000*Unit), delta(arm, fS1, 0, 60*Unit), delta(arm, fNU, 0, 1000*Unit)})
	}
	p := c.Refit()
	if p.Mu0 < 0.03 || p.Mu0 > 0.06 || p.T02 > 0.0016 || p.T02 < minT02 || p.W2 > 0.01 || p.W2 < minW2 {
		t.Errorf("40 lessons with an effect of 6 points: %+v", p)
	}
	if c.Priors().Version != 0 {
		t.Error("a refit is in force before it was published")
	}
	c.SetPriors(p)
	if c.Priors() != p {
		t.Error("SetPriors")
	}
	c.SetPriors(Priors{Mu0: math.NaN(), T02: -1, W2: math.Inf(1)})
	if got := c.Priors(); got != DefaultPriors() {
		t.Errorf("nonsense is in force: %+v", got)
	}
}

func TestResidualVariance(t *testing.T) {
	c := New()
	add := func(n int64, field string, v float64) { c.Add([]Delta{delta("", field, 0, n*int64(v*Unit))}) }
	add(1000, fTold, 1)
	add(1000, fRes2, 0.02)
	if got := c.Refit().Sigma2; got != 0.24 {
		t.Errorf("binary rewards: %v", got)
	}
	add(900, fGraded, 1)
	if got := c.Refit().Sigma2; !close6(got, 0.02) {
		t.Errorf("graded rewards: %v", got)
	}
}

func TestPublishedNeedsMoreThanChance(t *testing.T) {
	publish := func(n int, better, worse float64) (float64, float64) {
		c := New()
		c.Add([]Delta{delta("a@1", fM1, 0, int64(n)*Unit), delta("a@1", fBetter, 0, int64(better*Unit)), delta("a@1", fWorse, 0, int64(worse*Unit))})
		return c.Published("a@1")
	}
	for _, k := range []struct {
		n             int
		better, worse float64
		caution       bool
	}{{1, 0, 0.5, false}, {3, 0, 1.5, false}, {8, 0, 4, false}, {15, 0, 7.5, false}, {30, 0, 15, true}, {100, 24, 26, false}, {100, 20, 30, false}, {100, 15, 40, true}, {100, 40, 15, false}, {0, 0, 0, false}, {-1, 0, 5, false}} {
		b, w := publish(k.n, k.better, k.worse)
		if (w > b) != k.caution {
			t.Errorf("%+v: published %v %v", k, b, w)
		}
	}
}

// A lesson that is looked at after every session hardly ever becomes a caution unless it harms,
// also where it fires in sessions that are harder than anything tells: a caution would stay there.
func TestCautionsBearBeingLookedAt(t *testing.T) {
	for name, k := range map[string]struct {
		match, effect float64
		most, least   int
	}{
		"nothing":                     {0, 0, 2, 0},
		"nothing, in hard sessions":   {-0.2, 0, 2, 0},
		"nothing, in harder sessions": {-0.3, 0, 2, 0},
		"nothing, in easy sessions":   {0.2, 0, 2, 0},
		"help, in hard sessions":      {-0.25, 0.08, 0, 0},
		"harm":                        {0, -0.35, 400, 380},
		"harm, in easy sessions":      {0.2, -0.35, 400, 380},
	} {
		if n := cautionsOf(k.match, k.effect); n > k.most || n < k.least {
			t.Errorf("%s: %d of 400 lessons became cautions, want %d to %d", name, n, k.least, k.most)
		}
	}
}

// cautionsOf plays 1,000 sessions for each of 400 lessons, a fifth of them withheld, and counts the
// lessons that ever were cautions.
func cautionsOf(match, effect float64) (cautions int) {
	const lessons, sessions = 400, 1000
	r := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // tests repeat
	for range lessons {
		c := New()
		for range sessions {
			injected, p := r.IntN(5) > 0, 0.5+match
			if injected {
				p += effect
			}
			z := int64(-Unit / 2)
			if r.Float64() < p {
				z = Unit / 2
			}
			if !injected {
				c.Add([]Delta{delta("a@1", fN0, 1, Unit), delta("a@1", fS0, 1, z)})
				continue
			}
			c.Add([]Delta{
				delta("a@1", fN1, 1, Unit),
				delta("a@1", fS1, 1, z),
				delta("a@1", fM1, 0, Unit),
				delta("a@1", fBetter, 0, max(0, z)),
				delta("a@1", fWorse, 0, max(0, -z)),
			})
			if better, worse := c.Published("a@1"); worse > better {
				cautions++
				break
			}
		}
	}
	return cautions
}

func TestMaximaRiseAndStay(t *testing.T) {
	c := New()
	now := time.Unix(86_400*100, 0)
	a := Assignment{Decided: true, ControlP: 0.05, Matched: []Match{{Arm: "a@1"}}}
	win := func(injected bool) {
		a.Picks = []Pick{{Slug: "a", Arm: "a@1", Eps: 0.2, Injected: injected, Off: 0.5, C: 0.5}}
	}
	if got := c.Maxima(now); len(got) != 0 {
		t.Fatalf("%v out of nothing", got)
	}
	var all []Delta
	var done [][]Delta
	for i := range 400 {
		win(i%5 != 0)
		y := 1.0
		if i%5 == 0 {
			y = 0
		}
		done = append(done, Contribution(&a, y, 1))
		c.Add(done[i])
		all = append(all, c.Maxima(now)...)
	}
	s := c.Stats("a@1")
	if s.LogUp < 5 || s.LogDown > 0.1 || s.ProvenAt != now.Unix() || s.OutUp < 5 {
		t.Fatalf("E+ %v, E- %v, proven at %v, out %v", s.LogUp, s.LogDown, s.ProvenAt, s.OutUp)
	}
	if p := c.Posterior(lesson("a")); !p.Proven || !p.Leaning || !p.Trusted || !p.Settled {
		t.Error("a proven lesson keeps its large holdout")
	}
	for _, d := range all {
		if !d.Monotone() || d.Day != 0 || d.Scope != "a@1" {
			t.Fatalf("%v is no maximum of the lesson", d)
		}
	}
	// Another replica that only hears of the maxima believes the same; order and repetition do not
	// matter.
	other := New()
	for _, d := range slices.Backward(all) {
		other.Raise([]Delta{d})
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
	loaded := New()
	for _, d := range done {
		loaded.Add(d)
	}
	if got := loaded.Maxima(now); len(got) != 3 || got[0].Field != fEmaxUp || got[1].Field != fProvenAt || got[2].Field != fOutUp {
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
		if got := Discoveries(k.p, k.tests, 0.05); got != k.want {
			t.Errorf("%v of %d: %v, want %v", k.p, k.tests, got, k.want)
		}
	}
	if PValue(0) != 1 || PValue(-3) != 1 || !close6(PValue(math.Log(40)), 0.025) {
		t.Error("p = 1/E")
	}
}

func TestUnknownFieldsAreIgnored(t *testing.T) {
	c := New()
	before := dump(c)
	for _, f := range []string{"", "new", "w+0", "w+7", "w*1", "a2@200000", "a1@", "a1@x", "told2.1@5", "told1.9@5", "told1.1", "toldish"} {
		c.Add([]Delta{delta("", f, 0, Unit)})
	}
	if dump(c) != before {
		t.Error("an unknown field was counted")
	}
	if c.Stats("").N != 0 || c.Stats("none@1").Picked != 0 {
		t.Error("stats of what is no arm")
	}
}

func TestStatsAndClone(t *testing.T) {
	c := New()
	a := sampleAssignment()
	c.Add(a.Closing())
	c.Add(Contribution(&a, 1, 2))
	c.Advance(20001, 7)
	s := c.Stats("in@1")
	if s.M1 != 1 || s.Y1 != 1 || s.Matched != 1 || s.Picked != 1 || s.Tokens != 30 || s.Success != 1 || len(s.Days) != 1 || s.Days[0].N1 != 1 {
		t.Errorf("%+v", s)
	}
	if len(s.Strata) != 1 || s.Strata[0].Eps != 0.2 || s.Strata[0].Assigned != [2]int64{0, 1} || s.Strata[0].Told[1][2] != 1 || s.Strata[0].ToldArm(1) != 1 {
		t.Errorf("%+v", s.Strata)
	}
	if math.Abs(s.Recent-0.5) > 1e-9 {
		t.Errorf("one pick in two days is %v a day", s.Recent)
	}
	if g := c.Global(); g.Told != 1 || g.SumY != 1 || g.Days[0].S1 != 1 || g.Strata[0].Assigned != [2]int64{0, 1} {
		t.Errorf("%+v", g)
	}
	d := c.Clone()
	d.Add(Contribution(&a, 0, 2))
	if c.Stats("in@1").M1 != 1 || d.Stats("in@1").M1 != 2 || d.Global().Told != 2 || c.Global().Told != 1 {
		t.Error("a clone shares counters")
	}
	if d.Posterior(Candidate{Slug: "in", Arm: "in@2"}) != d.Posterior(Candidate{Slug: "in", Arm: "in@2", Parent: "in@1"}) {
		t.Error("a clone forgot the texts of a lesson")
	}
	if got := c.MeanAt(lesson("in"), 20000); !close6(got, 0.01) {
		t.Errorf("before its first session the mean is the prior's, not %v", got)
	}
	if got, want := c.MeanAt(lesson("in"), 20001), c.Posterior(lesson("in")).Mean; got <= 0.01 || math.Abs(got-want) > 0.001 {
		t.Errorf("mean %v, now %v", got, want)
	}
}

// Decisions go on while a recorder adds, the day turns and a report is read. The race detector is
// the judge.
func TestConcurrentUse(t *testing.T) {
	c := New()
	var wg sync.WaitGroup
	cfg := Config{K: 3, Epsilon: 0.2, Control: 0.05}
	for g := range 4 {
		wg.Go(func() {
			for i := range 200 {
				a := Assignment{Category: "x", Day: int32(i % 3)}
				Decide(cfg, c, &a, fmt.Sprint(g, i), lessons("a", "b", "c", fmt.Sprint("d", i)), 1)
				c.Add(a.Closing())
				c.Add(Contribution(&a, float64(i%2), 1))
			}
		})
	}
	wg.Go(func() {
		for i := range 50 {
			c.Maxima(time.Unix(int64(i)*86_400, 0))
			c.SetPriors(c.Refit())
			c.Raise([]Delta{delta("a@1", fEmaxUp, 0, int64(i))})
		}
	})
	wg.Go(func() {
		for range 50 {
			c.Clone().Global()
			c.Published("a@1")
			c.MeanAt(lesson("a"), 1)
			for _, k := range c.Arms() {
				c.Stats(k)
			}
		}
	})
	wg.Wait()
	if got := c.Global().Told; got != 800 {
		t.Errorf("%d rewards were counted, want 800", got)
	}
}

func BenchmarkAdd(b *testing.B) {
	c := grown(2000)
	a := sampleAssignment()
	ds := append(a.Closing(), Contribution(&a, 1, 1)...)
	b.ReportAllocs()
	for b.Loop() {
		c.Add(ds)
	}
}

func BenchmarkContribution(b *testing.B) {
	a := sampleAssignment()
	b.ReportAllocs()
	for b.Loop() {
		Contribution(&a, 1, 1)
	}
}
