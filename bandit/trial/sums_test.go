package trial_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"precept/bandit/trial"
)

func drawAssignment(t *rapid.T) trial.Assignment {
	u := rapid.Float64Range(0, 1)
	a := trial.Assignment{
		Control: rapid.Bool().Draw(t, "control"), ControlP: u.Draw(t, "g"), Category: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "cat"),
		Base: u.Draw(t, "base"), Centre: u.Draw(t, "c"), Decided: true, Day: rapid.Int32Range(0, 5).Draw(t, "day"), StartUnix: rapid.Int64Range(0, 9).Draw(t, "at"),
		Refused: rapid.Bool().Draw(t, "refused"), Looped: rapid.Bool().Draw(t, "looped"),
	}
	if rapid.Bool().Draw(t, "rewarded at close") {
		a.RewardAtClose = &trial.RewardAtClose{Y: u.Draw(t, "first"), Tier: rapid.IntRange(0, 4).Draw(t, "first tier")}
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "matched") {
		arm := trial.Arm(fmt.Sprintf("l%d@1", i))
		a.Matched = append(a.Matched, trial.Match{Arm: arm, MatchEffect: trial.Round(rapid.Float64Range(-0.5, 0.5).Draw(t, "del"))})
		if !a.Control && rapid.Bool().Draw(t, "picked") {
			a.Picks = append(a.Picks, trial.Pick{
				Slug: arm.Slug(), Arm: arm, Eps: rapid.SampledFrom([]float64{0.05, 0.2, 0.5, 0.9, 0, 1}).Draw(t, "eps"),
				Injected: rapid.Bool().Draw(t, "inj"), MeanEffect: 0.02, Offset: trial.Round(u.Draw(t, "off")), Centre: trial.Round(rapid.Float64Range(0.05, 0.95).Draw(t, "centre")), Tokens: 9,
				Turn: rapid.IntRange(1, 2).Draw(t, "turn"), Trial: rapid.SampledFrom([]string{"", "1.5"}).Draw(t, "trial"),
			})
		}
	}
	return a
}

func storedCopy(t *rapid.T, a trial.Assignment) (out trial.Assignment) {
	b, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// countersText returns the counters as text. It omits days and strata that contain only zeros, because the counters
// keep such days and strata in memory after a correction to zero.
func countersText(c *trial.Counters) string {
	var out strings.Builder
	show := func(name string, s trial.Stats) {
		s.Days = slices.DeleteFunc(s.Days, func(d trial.DayStats) bool { return d == trial.DayStats{Day: d.Day} })
		for _, strata := range []*[]trial.Stratum{&s.Strata, &s.All.AnyInjected} {
			*strata = slices.DeleteFunc(*strata, func(x trial.Stratum) bool { return x == trial.Stratum{Eps: x.Eps} })
		}
		s.RecentPerDay = 0 // not compared, because RecentPerDay depends on which days are in memory
		fmt.Fprintf(&out, "%s %+v\n", name, s)
	}
	c.RaiseMaxima(time.Unix(9, 0))
	show("", c.Global())
	for i := range 4 { // the lessons in drawAssignment
		arm := trial.Arm(fmt.Sprintf("l%d@1", i))
		show(string(arm), c.Stats(arm))
	}
	fmt.Fprintf(&out, "%+v %v\n", c.Evaluations(), c.ClosedPerDay(5))
	return out.String()
}

// Replicas count sessions in different orders, and late feedback replaces the contribution of a session. The sums must
// still be equal.
func TestSumsDoNotDependOnOrderOrCorrections(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ordered, shuffled := trial.NewCounters(), trial.NewCounters()
		var steps [][]trial.Delta
		for i := range rapid.IntRange(1, 6).Draw(t, "sessions") {
			a := drawAssignment(t)
			y, tier := rapid.Float64Range(0, 1).Draw(t, "y"), rapid.IntRange(0, 4).Draw(t, "tier")
			used := trial.Usage{Input: int64(rapid.IntRange(0, 1<<40).Draw(t, "input")), Cached: int64(rapid.IntRange(0, 1<<40).Draw(t, "cached"))}
			name := fmt.Sprintf("%08x", i*7919)
			deltas := func(a *trial.Assignment) [][]trial.Delta {
				return [][]trial.Delta{a.ClosingDeltas(), a.CostDeltas(used), a.TrialEntries(name, y), a.Contribution(y, tier)}
			}
			for _, ds := range deltas(&a) {
				ordered.Add(ds)
			}
			stored := storedCopy(t, a)
			steps = append(steps, deltas(&stored)...)
			for range rapid.IntRange(0, 2).Draw(t, "corrections") {
				wrong := stored.Contribution(rapid.Float64Range(0, 1).Draw(t, "wrong"), 3)
				steps = append(steps, wrong, trial.Negate(wrong))
			}
		}
		var replicas [2][][]trial.Delta
		for i, s := range rapid.Permutation(steps).Draw(t, "order") {
			shuffled.Add(s)
			replicas[i%2] = append(replicas[i%2], s)
		}
		want := countersText(ordered)
		if got := countersText(shuffled); got != want {
			t.Fatalf("counters in another order =\n%s\nwant\n%s", got, want)
		}
		loaded := trial.NewCounters() // stands for a replica that loads the counts of two other replicas from the store
		loaded.Add(mergeDeltas(mergeDeltas(replicas[0]...), mergeDeltas(replicas[1]...)))
		if got := countersText(loaded); got != want {
			t.Fatalf("merged replicas: counters =\n%s\nwant\n%s", got, want)
		}
		if got := countersText(ordered.Clone()); got != want {
			t.Fatalf("clone: counters =\n%s\nwant\n%s", got, want)
		}
	})
}

// A delta is a change to a counter. If any single delta is missing, the statistics must differ.
func TestEachCounterChangesTheStatistics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawAssignment(t)
		ds := slices.Concat(a.ClosingDeltas(), a.CostDeltas(trial.Usage{Input: 9, Cached: 5}), a.Contribution(rapid.Float64Range(0, 1).Draw(t, "y"), 2), a.TrialEntries("session", 0.3))
		read := func(ds []trial.Delta) string {
			c := trial.NewCounters()
			for _, d := range ds {
				d.Value *= 100_000 // large enough that the smallest bet, an assumed effect, shows in the text
				c.Add([]trial.Delta{d})
			}
			return countersText(c)
		}
		want, missing := read(ds), rapid.IntRange(0, len(ds)-1).Draw(t, "missing")
		d := ds[missing]
		if d.Key.Field == trial.FieldUnpicked || d.Key.Field[0] == 'w' && d.Key.Field != "worse" {
			return // the field is read only by the chooser, or is a bet, which shows only at a new maximum
		}
		if got := read(slices.Delete(slices.Clone(ds), missing, missing+1)); got == want {
			t.Fatalf("counters without the delta %v:\ngot the same counters as with the delta, want different counters:\n%s", d, got)
		}
	})
}

// The names of the counters cannot change, because other versions of precept read the stored counters.
func TestCounterNamesAreFixed(t *testing.T) {
	names := map[string]bool{}
	addPlain := func(ds []trial.Delta) {
		for _, d := range ds {
			plain, rate, _ := strings.Cut(d.Key.Field, "@")
			if rate != "" {
				plain += "@"
			}
			names[plain] = true
		}
	}
	c := trial.NewCounters()
	for round := range 4096 {
		bit := func(k int) bool { return round>>k&1 == 1 }
		a := trial.Assignment{Decided: true, Control: bit(0), ControlP: 0.05, Refused: true, Matched: []trial.Match{{Arm: "a@1"}, {Arm: "b@1"}}, RewardAtClose: &trial.RewardAtClose{Tier: round % 5}}
		if !a.Control {
			a.Picks = []trial.Pick{{Slug: "a", Arm: "a@1", Eps: 0.5, Injected: bit(3), Offset: 0.5, Centre: 0.5, Tokens: 1}}
		}
		y := float64(round >> 4 & 1)
		if round >= 2048 { // successes first, then failures
			y = 1 - float64(round>>3&1)
		} else if round > 1024 {
			y = float64(round >> 3 & 1)
		}
		ds := a.Contribution(y, round/2%5)
		addPlain(slices.Concat(a.ClosingDeltas(), a.CostDeltas(trial.Usage{Input: 3, Cached: 2}), ds))
		c.Add(ds)
		addPlain(c.RaiseMaxima(time.Unix(1, 0)))
	}
	idle := trial.NewCounters()
	for i := range 40_000 {
		a := trial.Assignment{Picks: []trial.Pick{{Arm: "a@1", Eps: 0.5, Injected: i%2 == 0, Centre: 0.5}}}
		idle.Add(a.Contribution(float64(i/2%2), 1))
	}
	addPlain(idle.RaiseMaxima(time.Unix(1, 0)))
	for _, why := range []trial.ExclusionReason{trial.ExcludedTwin, trial.ExcludedLate, trial.ExcludedKeys, trial.ExcludedUnknown, trial.ExcludedMember} {
		addPlain((&trial.Assignment{Excluded: true, ExcludedFor: why}).ClosingDeltas())
	}
	const want = "a0@ a1@ added any.a0@ any.a1@ any.heard0.0@ any.heard0.1@ any.heard0.2@ any.heard0.3@ any.heard1.0@ any.heard1.1@ any.heard1.2@ any.heard1.3@ " +
		"any.told0.0@ any.told0.1@ any.told0.2@ any.told0.3@ any.told1.0@ any.told1.1@ any.told1.2@ any.told1.3@ better billed0 billed1 cached0 cached1 closed emax+ emax- " +
		"excluded.late excluded.member excluded.secret excluded.twin excluded.unknown " +
		"failure heard0.0@ heard0.1@ heard0.2@ heard0.3@ heard1.0@ heard1.1@ heard1.2@ heard1.3@ " +
		"idle_at input0 input1 kept0 kept1 m0 m1 matched n n0 n1 nu out+ out- picked proven_at read0 read1 refused0 refused1 s0 s1 spent0 spent1 success sumy told tokens " +
		"told0.0@ told0.1@ told0.2@ told0.3@ told1.0@ told1.1@ told1.2@ told1.3@ w+1 w+2 w+3 w+4 w+5 w+6 w-1 w-2 w-3 w-4 w-5 w-6 worse y0 y0@ y1 y1@ z zz"
	for name := range strings.FieldsSeq(want) {
		if !names[name] {
			t.Errorf("no counter has the name %s, want one", name)
		}
		delete(names, name)
	}
	if len(names) > 0 {
		t.Errorf("unknown counters = %v, want none", names)
	}
}

// An older version of precept may read counters that a newer version stored. It must ignore the fields that it does not
// know.
func TestUnknownFieldsAreIgnored(t *testing.T) {
	c := trial.NewCounters()
	before := countersText(c)
	for _, f := range []string{"", "new", "w+0", "w+7", "w*1", "a2@200000", "a1@", "a1@x", "told2.1@5", "told1.9@5", "told1.1", "toldish", "spent", "spent2", "0", "closed1"} {
		c.Add([]trial.Delta{{Key: key("", f, 0), Value: trial.FixedScale}, {Key: key("l0@1", f, 0), Value: trial.FixedScale}})
	}
	for _, scope := range []string{"x:coder", "r:v2|l0@1", "t:l0@1", "t:#1.5"} { // from the chooser, for another reward definition, and for invalid trials
		c.Add([]trial.Delta{{Key: key(scope, "n", 0), Value: trial.FixedScale}})
	}
	c.Add([]trial.Delta{{Key: key("l0@1", "s1", 3), Value: trial.FixedScale}}) // a residual
	for _, field := range []string{"x.y", "7", "7.y"} {                        // no trial entries
		value := int64(6)
		if field == "7.y" {
			value = 0
		}
		c.Add([]trial.Delta{{Key: key(trial.PlannedScope("l0@1", "1.5"), field, 0), Value: value}})
	}
	if got := countersText(c); got != before {
		t.Errorf("counters after adding unknown fields = %s, want the unchanged counters %s", got, before)
	}
	if s := c.Stats("l0@1"); len(s.Days) != 0 || len(s.Strata) != 0 || c.Stats("").N != 0 || c.Stats("none@1").Picked != 0 {
		t.Errorf(`Stats(l0@1) = %+v, want no days and no strata; Stats("").N = %v and Stats(none@1).Picked = %v, want 0`, s, c.Stats("").N, c.Stats("none@1").Picked)
	}
}

func TestChooserFieldsDoNotChangeTrial(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trialOnly, withChooserFields := trial.NewCounters(), trial.NewCounters()
		a := drawAssignment(t)
		ds := slices.Concat(a.ClosingDeltas(), a.Contribution(rapid.Float64Range(0, 1).Draw(t, "y"), 1))
		trialOnly.Add(ds)
		for i, n := 0, rapid.IntRange(1, 8).Draw(t, "chooser fields"); i < n; i++ {
			scope, field := rapid.SampledFrom([]string{"", "l0@1", "l1@1", "x:x"}).Draw(t, "scope"), rapid.SampledFrom([]string{"su", "graded", "res2", "cn", "cs"}).Draw(t, "field")
			ds = append(ds, trial.Delta{Key: key(scope, field, a.Day), Value: rapid.Int64().Draw(t, "value")})
		}
		withChooserFields.Add(ds)
		if got, want := countersText(withChooserFields), countersText(trialOnly); got != want {
			t.Fatalf("after adding chooser fields: counters =\n%s\nwant\n%s", got, want)
		}
	})
}

// Fixed limits each number to 1e12 millionths, so that sums of many numbers cannot overflow.
func TestFixedIsLimitedAndZeroForNaN(t *testing.T) {
	for x, want := range map[float64]int64{
		0.1234567: 123457, -0.0000005: -1, 1e6: 1e12, 1e6 + 1: 1e12, -1e30: -1e12, math.Inf(1): 1e12, math.Inf(-1): -1e12, 0.0000004: 0,
	} {
		if got := trial.Fixed(x); got != want {
			t.Errorf("Fixed(%v) = %d, want %d", x, got, want)
		}
	}
	for x, want := range map[float64]float64{0.12345678: 0.123457, -2: -2, math.Inf(1): 0, math.Inf(-1): 0} {
		if got := trial.Round(x); got != want {
			t.Errorf("Round(%v) = %v, want %v", x, got, want)
		}
	}
	if fixed, rounded := trial.Fixed(math.NaN()), trial.Round(math.NaN()); fixed != 0 || rounded != 0 {
		t.Errorf("Fixed(NaN) = %d and Round(NaN) = %v, want 0", fixed, rounded)
	}
}

// The scope of the tenant's totals is empty. Other scopes that are not arms begin with a character and a colon.
func TestIsArmExcludesTenantAndMarkedScopes(t *testing.T) {
	for scope, want := range map[string]bool{"": false, "a@1": true, "a": true, "x:coder": false, "t:a@1#1.2": false, "ab:c@1": true, ":": true, "::": false} {
		if got := trial.IsArm(scope); got != want {
			t.Errorf("IsArm(%q) = %v, want %v", scope, got, want)
		}
	}
}
