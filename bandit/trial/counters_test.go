package trial_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"precept/bandit/trial"
)

func almostEqual(got, want float64) bool { return math.Abs(got-want) < 1e-6 }

func TestMaximaNeverDecrease(t *testing.T) {
	c := trial.NewCounters()
	now := time.Unix(86_400*100, 0)
	a := trial.Assignment{Decided: true, ControlP: 0.05, Matched: []trial.Match{{Arm: "a@1"}}}
	setPick := func(injected bool) {
		a.Picks = []trial.Pick{{Slug: "a", Arm: "a@1", Eps: 0.2, Injected: injected, Offset: 0.5, Centre: 0.5}}
	}
	if got := c.RaiseMaxima(now); len(got) != 0 {
		t.Fatalf("empty counters: RaiseMaxima = %v, want none", got)
	}
	var all []trial.Delta
	var done [][]trial.Delta
	for i := range 400 {
		setPick(i%5 != 0)
		y := 1.0
		if i%5 == 0 {
			y = 0
		}
		done = append(done, a.Contribution(y, 1))
		c.Add(done[i])
		all = append(all, c.RaiseMaxima(now)...)
	}
	s := c.Stats("a@1")
	if s.Maxima.LogEHelps < 5 || s.Maxima.LogEHarms > 0.1 || s.Maxima.ProvenAt != now.Unix() || s.Maxima.MaxAbove < 5 {
		t.Fatalf("Maxima = %+v, want LogEHelps >= 5, LogEHarms <= 0.1, ProvenAt = %d and MaxAbove >= 5", s.Maxima, now.Unix())
	}
	if p := c.Progress("a@1", 0, "", 0); !p.Proven || !p.Concluded {
		t.Errorf("proven lesson: Progress = %+v, want Proven and Concluded", p)
	}
	for _, d := range all {
		if !d.Key.Monotone() || d.Key.Day != 0 || d.Key.Scope != "a@1" {
			t.Fatalf("delta = %v, want a maximum for the lesson", d)
		}
	}
	// A replica may receive the maxima in any order, and each of them several times.
	other := trial.NewCounters()
	for _, d := range slices.Backward(all) {
		other.MergeMaxima([]trial.Delta{d})
	}
	other.MergeMaxima(all)
	if o := other.Stats("a@1"); o.Maxima.LogEHelps != s.Maxima.LogEHelps || o.Maxima.LogEHarms != s.Maxima.LogEHarms || o.Maxima.ProvenAt != s.Maxima.ProvenAt || o.Maxima.MaxAbove != s.Maxima.MaxAbove {
		t.Errorf("Maxima after MergeMaxima = %+v, want %+v", o.Maxima, s.Maxima)
	}
	other.MergeMaxima(done[0]) // done[0] has only sums, which MergeMaxima ignores
	if other.Stats("a@1").N != 0 {
		t.Errorf("MergeMaxima(sum deltas): N = %v, want 0", other.Stats("a@1").N)
	}
	// Withdrawing a contribution lowers the sums but not the maxima.
	for _, d := range done {
		c.Add(trial.Negate(d))
	}
	if got := c.RaiseMaxima(now); len(got) != 0 || c.Stats("a@1").Maxima.LogEHelps != s.Maxima.LogEHelps || c.Stats("a@1").N != 0 {
		t.Errorf("after Negate: new maxima = %v, LogEHelps = %v, N = %v, want no new maxima, %v and 0", got, c.Stats("a@1").Maxima.LogEHelps, c.Stats("a@1").N, s.Maxima.LogEHelps)
	}
	// After the counters are loaded from a store, one call of RaiseMaxima restores the maxima.
	loaded := trial.NewCounters()
	for _, d := range done {
		loaded.Add(d)
	}
	if got := loaded.RaiseMaxima(now); len(got) != 3 || got[0].Key.Field != "emax+" || got[1].Key.Field != "proven_at" || got[2].Key.Field != "out+" {
		t.Errorf("loaded counters: RaiseMaxima = %v, want deltas for emax+, proven_at and out+", got)
	}
}

// NextDiscovery returns the p-value with which one more test would become a discovery.
func TestDiscoveriesMatchBenjaminiHochberg(t *testing.T) {
	for _, tc := range []struct {
		p     []float64
		tests int
		want  float64
	}{
		{nil, 10, -1},
		{[]float64{0.04}, 1, 0.05},
		{[]float64{0.05}, 1, 0.05},
		{[]float64{0.04}, 2, -1},
		{[]float64{0.02}, 2, 0.025},
		{[]float64{0.001, 0.009, 0.04}, 10, 0.01}, // the thresholds are 0.005, 0.010 and 0.015
		{[]float64{0.006, 0.009}, 10, 0.01},       // 0.006 is above 0.005, but 0.009 is below 0.010: both are discoveries
		{[]float64{0.01}, 0, 0.05},
	} {
		if got := trial.Discoveries(tc.p, tc.tests, 0.05); got != tc.want {
			t.Errorf("Discoveries(%v, %d tests) = %v, want %v", tc.p, tc.tests, got, tc.want)
		}
		next := trial.NextDiscovery(tc.p, tc.tests, 0.05)
		one := append(slices.Clone(tc.p), next)
		slices.Sort(one)
		if bar := trial.Discoveries(one, tc.tests, 0.05); bar < next {
			t.Errorf("Discoveries(%v, %d tests) = %v, want at least %v", one, tc.tests, bar, next)
		}
		if alone := []float64{next * 1.001}; len(tc.p) == 0 && trial.Discoveries(alone, tc.tests, 0.05) > 0 {
			t.Errorf("%d tests: %v is a discovery, want none", tc.tests, alone)
		}
	}
	if trial.PValue(0) != 1 || trial.PValue(-3) != 1 || !almostEqual(trial.PValue(math.Log(40)), 0.025) {
		t.Errorf("PValue for e-values 1, e^-3 and 40 = %v, %v, %v, want 1, 1, 0.025", trial.PValue(0), trial.PValue(-3), trial.PValue(math.Log(40)))
	}
}

// A change to a clone does not change the original.
func TestStatsReturnsAddedCounts(t *testing.T) {
	c := trial.NewCounters()
	a := sampleAssignment()
	c.Add(a.ClosingDeltas())
	c.Add(a.Contribution(1, 2))
	c.Advance(20001)
	s := c.Stats("in@1")
	if s.Rewards.M1 != 1 || s.Rewards.Y1 != 1 || s.Matched != 1 || s.Picked != 1 || s.Tokens != 30 || s.Rewards.Success != 1 || len(s.Days) != 1 || s.Days[0].N1 != 1 {
		t.Errorf("Stats(in@1) = %+v, want Rewards.M1, Rewards.Y1, Rewards.Success, Matched and Picked = 1, Tokens = 30 and one day with N1 = 1", s)
	}
	if len(s.Strata) != 1 || s.Strata[0].Eps != 0.2 || s.Strata[0].Assigned != [2]int64{0, 1} || s.Strata[0].Rewarded[1][2] != 1 || s.Strata[0].RewardedInArm(1) != 1 {
		t.Errorf("Strata = %+v, want one with Eps = 0.2, one injected pick and one injected tier 2 reward", s.Strata)
	}
	if math.Abs(s.RecentPerDay-0.5) > 1e-9 {
		t.Errorf("one pick in two days: RecentPerDay = %v, want 0.5", s.RecentPerDay)
	}
	if g := c.Global(); g.All.Rewarded != 1 || g.All.SumY != 1 || g.Days[0].S1 != 1 || g.Strata[0].Assigned != [2]int64{0, 1} {
		t.Errorf("Global = %+v, want All.Rewarded, All.SumY and Days[0].S1 = 1, and one treated session", g)
	}
	d := c.Clone()
	d.Add(a.Contribution(0, 2))
	if c.Stats("in@1").Rewards.M1 != 1 || d.Stats("in@1").Rewards.M1 != 2 || d.Global().All.Rewarded != 2 || c.Global().All.Rewarded != 1 {
		t.Errorf("Clone, then Add to the clone: original = %+v, clone = %+v, want 1 and 2 rewarded sessions", c.Global().All, d.Global().All)
	}
}

func TestSpentSumsTokensByArm(t *testing.T) {
	a := &trial.Assignment{Picks: []trial.Pick{{Arm: "in@1", Eps: 0.2, Injected: true}, {Arm: "out@1", Eps: 0.5}, {Arm: "sure@1", Injected: true}}}
	c := trial.NewCounters()
	c.Add(a.CostDeltas(trial.Usage{Input: 123_456_789, Cached: 100_000_001}))
	c.Add(a.CostDeltas(trial.Usage{Input: 11, Cached: 12})) // more cached than input tokens
	c.Add(a.CostDeltas(trial.Usage{}))                      // not reported
	want := trial.Spending{2, 123_456_800, 100_000_012}
	if got := c.Stats("in@1").Spent; got != [2]trial.Spending{1: want} {
		t.Errorf("injected pick: Spent = %+v, want %+v", got, want)
	}
	if got := c.Stats("out@1").Spent; got != [2]trial.Spending{0: want} {
		t.Errorf("withheld pick: Spent = %+v, want %+v", got, want)
	}
	if got := c.Stats("sure@1").Spent; got != [2]trial.Spending{} {
		t.Errorf("pick with epsilon 0: Spent = %+v, want zeros", got)
	}
	a.Excluded = true
	if got := a.CostDeltas(trial.Usage{Input: 1}); got != nil {
		t.Errorf("excluded session: CostDeltas = %v, want none", got)
	}
}

func BenchmarkContribution(b *testing.B) {
	a := sampleAssignment()
	b.ReportAllocs()
	for b.Loop() {
		a.Contribution(1, 1)
	}
}

// RecentPerDay counts the arm's rewarded picks per day, and ClosedPerDay all closed sessions per day. Both are averages
// over the last 28 days, or over the time since the first pick or session if that is shorter.
func TestRatesCoverLastFourWeeks(t *testing.T) {
	for _, tc := range []struct {
		days           []int32 // days with a rewarded pick
		today          int32
		recent, closed float64 // wanted RecentPerDay and ClosedPerDay
	}{
		{nil, 500, 0, 0},
		{[]int32{500}, 500, 1, 1},
		{[]int32{499, 500, 500, 500}, 500, 2, 2},
		{[]int32{491, 500}, 500, 0.2, 0.2},
		{[]int32{473, 500}, 500, 2 / 28.0, 2 / 28.0},
		{[]int32{472, 500}, 500, 1 / 28.0, 1},             // the first day is outside the window
		{[]int32{400, 490, 500}, 500, 2 / 28.0, 2 / 11.0}, // the arm is older than the window
		{[]int32{500, 501}, 500, 2, 1},                    // another replica's clock is a day ahead
	} {
		k := trial.NewCounters()
		for _, day := range tc.days {
			a := sessionWithPick(0.5, day%2 == 0, 0.5)
			a.Day = day
			k.Add(append(a.ClosingDeltas(), a.Contribution(1, 1)...))
		}
		k.Advance(tc.today)
		if got := k.Stats("a@1").RecentPerDay; math.Abs(got-tc.recent) > 1e-9 {
			t.Errorf("%+v: RecentPerDay = %v, want %v", tc, got, tc.recent)
		}
		if got := k.ClosedPerDay(tc.today); math.Abs(got-tc.closed) > 1e-9 {
			t.Errorf("%+v: ClosedPerDay = %v, want %v", tc, got, tc.closed)
		}
	}
	for at, want := range map[time.Time]int32{
		time.Unix(0, 0): 0, time.Unix(86_399, 0): 0, time.Unix(86_400, 0): 1, time.Unix(1e15, 0): math.MaxInt32, time.Unix(-1e15, 0): math.MinInt32 + 1,
	} {
		if got := trial.Day(at); got != want {
			t.Errorf("Day(%v) = %d, want %d", at, got, want)
		}
	}
	if never := trial.NewCounters(); never.Stats("a@1").RecentPerDay != 0 {
		t.Errorf("empty counters: RecentPerDay = %v, want 0", never.Stats("a@1").RecentPerDay)
	}
	undated := trial.NewCounters() // without a day
	undated.Add(sessionWithPick(0.5, injected, 0.5).Contribution(1, 1))
	if got := undated.Stats("a@1").RecentPerDay; math.Abs(got-1.0/28) > 1e-9 {
		t.Errorf("sessions without a day: RecentPerDay = %v, want 1/28", got)
	}
}

// A correction may arrive before the reward that it corrects.
func TestNegativeCountsReadAsZero(t *testing.T) {
	c := trial.NewCounters()
	a := sampleAssignment()
	for _, ds := range [][]trial.Delta{a.ClosingDeltas(), a.Contribution(1, 2), a.CostDeltas(trial.Usage{Input: 5, Cached: 3})} {
		c.Add(trial.Negate(ds))
	}
	for _, s := range []trial.Stats{c.Stats("in@1"), c.Global()} {
		for subject, x := range map[string]float64{
			"n": s.N, "zz": s.ZZ, "m1": s.Rewards.M1, "y1": s.Rewards.Y1, "m0": s.Rewards.M0, "rewarded": float64(s.All.Rewarded), "rewards": s.All.SumY, "matched": float64(s.Matched),
			"picked": float64(s.Picked), "tokens": float64(s.Tokens), "input": s.Spent[1].Input, "better": s.Rewards.Better, "recent": s.RecentPerDay, "assigned": float64(s.Strata[0].Assigned[1]),
			"rewarded in arm": float64(s.Strata[0].RewardedInArm(1)), "stratum rewards": s.Strata[0].Y[1],
		} {
			if x != 0 {
				t.Errorf("correction without its original: %s = %v, want 0", subject, x)
			}
		}
	}
}

func TestArmsAreSortedWithoutTenantAndTrials(t *testing.T) {
	c := trial.NewCounters()
	for _, arm := range []trial.Arm{"b@1", "a@1", "c@2"} {
		a := moveToArm(sessionWithPick(0.5, injected, 0.5), arm)
		a.Picks[0].Trial = "1.5"
		c.Add(slices.Concat(a.ClosingDeltas(), a.Contribution(1, 1), a.TrialEntries("s", 1)))
	}
	if got := c.Arms(); !slices.Equal(got, []trial.Arm{"a@1", "b@1", "c@2"}) {
		t.Errorf("Arms = %v, want [a@1 b@1 c@2]", got)
	}
}

// A correction, a negated contribution, lowers the counts.
func TestCorrectionsReduceRewardAndClosedCounts(t *testing.T) {
	a := sampleAssignment()
	ds := slices.Concat(a.ClosingDeltas(), a.ClosingDeltas(), a.Contribution(1, 1))
	if trial.CountRewards(ds) != 1 || trial.CountClosed(ds) != 2 {
		t.Errorf("CountRewards = %d, CountClosed = %d, want 1, 2", trial.CountRewards(ds), trial.CountClosed(ds))
	}
	if n := trial.CountRewards(slices.Concat(ds, trial.Negate(a.Contribution(1, 1)))); n != 0 {
		t.Errorf("after the reward was withdrawn: CountRewards = %d, want 0", n)
	}
	ds = append(ds, trial.Delta{Key: key("a@1", trial.FieldRewarded, 0), Value: trial.FixedScale}, trial.Delta{Key: key("a@1", "closed", 0), Value: trial.FixedScale})
	if trial.CountRewards(ds) != 1 || trial.CountClosed(ds) != 2 {
		t.Errorf("after adding an arm's counters with the same names: CountRewards = %d, CountClosed = %d, want 1, 2", trial.CountRewards(ds), trial.CountClosed(ds))
	}
	if got := trial.ScopePrefixLen(ds); got < 1 || ds[0].Key.Scope != ds[got-1].Key.Scope || got < len(ds) && ds[got].Key.Scope == ds[0].Key.Scope {
		t.Errorf("ScopePrefixLen = %d, want only the leading deltas with the first scope", got)
	}
}
