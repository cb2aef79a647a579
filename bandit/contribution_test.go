package bandit

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"precept/trial"
)

func key(scope, field string, day int32) Key { return Key{Scope: scope, Field: field, Day: day} }

func delta(scope, field string, day int32, v int64) Delta {
	return Delta{Key: key(scope, field, day), Value: v}
}

// of finds one delta; absent ones are 0.
func of(ds []Delta, scope, field string, day int32) float64 {
	for _, d := range ds {
		if d.Key == key(scope, field, day) {
			return float64(d.Value) / Unit
		}
	}
	return 0
}

// session returns an assignment with an injected, a withheld, an unpicked lesson and a loop
// warning.
func sampleAssignment() Assignment {
	return Assignment{
		ControlP: 0.05, Category: "cat", Base: 0.6, C: 0.55, Decided: true, Day: 20000,
		Matched: []Match{{Arm: "in@1", Del: -0.1}, {Arm: "out@1", Del: 0.05}, {Arm: "not@1", Del: 0}},
		Picks: []Pick{
			{Slug: "in", Arm: "in@1", Eps: 0.2, Injected: true, M: 0.04, Off: 0.65, C: 0.55, Tokens: 30, Turn: 1},
			{Slug: "out", Arm: "out@1", Eps: 0.5, Injected: false, M: 0.02, Off: 0.54, C: 0.59, Tokens: 50, Turn: 1},
			{Slug: "loop-warning", Arm: trial.LoopArm, Eps: 0.2, Injected: true, M: 0.01, Off: 0.59, C: 0.4, Turn: 3},
		},
	}
}

// Every number by hand, from the formulas.
func TestContribution(t *testing.T) {
	a := sampleAssignment()
	ds := Contribution(&a, 1, 2)
	del, m := -0.1+0.05, 0.04
	z := (1 - 0.55) / 0.8
	for _, c := range []struct {
		scope, field string
		day          int32
		want         float64
	}{
		{"", "told", 0, 1},
		{"", "sumy", 0, 1},
		{"", "graded", 0, 0},
		{"", "res2", 0, math.Pow(1-0.6-del-m, 2)},
		{"x:cat", "cn", 0, 1},
		{"x:cat", "cs", 0, 1 - del - m},
		{"", "n1", 20000, 1},
		{"", "s1", 20000, 1},
		{"", "n0", 20000, 0},
		{"", "n", 20000, 1},
		{"", "z", 20000, (1 - 0.55) / 0.95},
		{"", "zz", 20000, math.Pow((1-0.55)/0.95, 2)},
		{"", "told1.2@50000", 0, 1},

		{"in@1", "n1", 20000, 1},
		{"in@1", "s1", 20000, 0.35},
		{"in@1", "m1", 0, 1},
		{"in@1", "y1", 0, 1},
		{"in@1", "better", 0, 0.35},
		{"in@1", "worse", 0, 0},
		{"in@1", "success", 0, 1},
		{"in@1", "failure", 0, 0},
		{"in@1", "told1.2@200000", 0, 1},
		{"in@1", "n", 20000, 1},
		{"in@1", "z", 20000, z},
		{"in@1", "zz", 20000, z * z},
		{"in@1", "w+1", 0, math.Log(1 + 0.005*z)},
		{"in@1", "w-3", 0, math.Log(1 - 0.02*z)},
		{"in@1", "w+6", 0, math.Log(1 + 0.16*z)},

		{"out@1", "n0", 20000, 1},
		{"out@1", "s0", 20000, 0.46},
		{"out@1", "m0", 0, 1},
		{"out@1", "y0", 0, 1},
		{"out@1", "success", 0, 0},
		{"out@1", "z", 20000, -(1 - 0.59) / 0.5},
		{"out@1", "told0.2@500000", 0, 1},
		{"out@1", "w+6", 0, math.Log(1 - 0.16*(1-0.59)/0.5)},

		{"not@1", "nu", 20000, 1},
		{"not@1", "su", 20000, 1 - 0.6 - del - m},
		{"not@1", "n", 20000, 0},
		{string(trial.LoopArm), "n1", 20000, 1},
		{string(trial.LoopArm), "s1", 20000, 0.41},
		{string(trial.LoopArm), "z", 20000, 0.6 / 0.8},
	} {
		if got := of(ds, c.scope, c.field, c.day); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%s %s: %v, want %v", c.scope, c.field, got, c.want)
		}
	}
	ds = Contribution(&a, 0.3, 3)
	for field, want := range map[string]float64{"failure": 1, "success": 0, "worse": 0.35, "y1": 0.3} {
		if got := of(ds, "in@1", field, 0); math.Abs(got-want) > 1e-6 {
			t.Errorf("%s: %v, want %v", field, got, want)
		}
	}
	if of(ds, "", "graded", 0) != 1 {
		t.Error("0.3 is not binary")
	}
}

func TestControlSessions(t *testing.T) {
	a := Assignment{Control: true, ControlP: 0.05, Category: "c", Base: 0.6, C: 0.5, Decided: true, Day: 7, Matched: []Match{{Arm: "a@1", Del: -0.1}, {Arm: "b@1", Del: 0.02}}}
	ds := Contribution(&a, 1, 1)
	if got := of(ds, "a@1", "su", 7); math.Abs(got-(1-0.6-0.02)) > 1e-6 {
		t.Errorf("residual of a match in a control session: %v", got)
	}
	if got := of(ds, "", "z", 7); math.Abs(got+0.5/0.05) > 1e-6 {
		t.Errorf("z of a control session: %v", got)
	}
	if of(a.Closing(), "", "a0@50000", 0) != 1 || of(ds, "", "told0.1@50000", 0) != 1 || of(ds, "", "n0", 7) != 1 {
		t.Error("a control session is not counted as one")
	}
	a.Matched = nil
	if ds = Contribution(&a, 1, 1); of(ds, "", "n0", 7) != 0 || of(ds, "x:c", "cn", 0) != 1 {
		t.Error("a session in which nothing matched says nothing of lessons, and something of the baseline")
	}
}

// Without a coin there is no comparison, only facts.
func TestNoCoinNoEffect(t *testing.T) {
	for _, eps := range []float64{0, 1} {
		a := sampleAssignment()
		a.ControlP = eps
		for i := range a.Picks {
			a.Picks[i].Eps = eps
		}
		for _, d := range Contribution(&a, 1, 1) {
			if d.Field == "n" || d.Field == "z" || d.Field == "zz" || d.Field[0] == 'w' && d.Field != "worse" {
				t.Errorf("epsilon %v: %v", eps, d)
			}
		}
	}
	a := sampleAssignment()
	a.Picks[0].Eps = 0
	if of(Contribution(&a, 1, 1), "in@1", "m1", 0) != 1 {
		t.Error("the injected session is not counted")
	}
}

func TestClosing(t *testing.T) {
	a := sampleAssignment()
	ds := a.Closing()
	type at struct {
		scope, field string
		day          int32
	}
	for k, want := range map[at]float64{
		{"", "closed", 20000}: 1, {"", "a1@50000", 0}: 1,
		{"in@1", "matched", 0}: 1, {"in@1", "picked", 0}: 1, {"in@1", "a1@200000", 0}: 1, {"in@1", "tokens", 0}: 30,
		{"out@1", "picked", 0}: 1, {"out@1", "a0@500000", 0}: 1, {"out@1", "tokens", 0}: 0,
		{"not@1", "matched", 0}: 1, {"not@1", "picked", 0}: 0,
		{string(trial.LoopArm), "matched", 0}: 1, {string(trial.LoopArm), "a1@200000", 0}: 1,
	} {
		if got := of(ds, k.scope, k.field, k.day); got != want {
			t.Errorf("%v: %v, want %v", k, got, want)
		}
	}
	empty := Assignment{Decided: true, ControlP: 0.05, Day: 3}
	if ds := empty.Closing(); len(ds) != 1 || ds[0].Field != "closed" {
		t.Errorf("a session without matches: %v", ds)
	}
}

func TestExcludedAndNonsenseAddNothing(t *testing.T) {
	a := sampleAssignment()
	if Contribution(&a, math.NaN(), 1) != nil {
		t.Error("NaN is no reward")
	}
	if !reflect.DeepEqual(Contribution(&a, 7, 1), Contribution(&a, 1, 1)) || !reflect.DeepEqual(Contribution(&a, -1, 1), Contribution(&a, 0, 1)) {
		t.Error("rewards outside 0..1 are not bounded")
	}
	if of(Contribution(&a, 1, 99), "in@1", "told1.0@200000", 0) != 1 {
		t.Error("an unknown tier is not counted as unknown")
	}
	a.Excluded = true
	if a.Closing() != nil || Contribution(&a, 1, 1) != nil {
		t.Error("an excluded session adds something")
	}
	if got := Contribution(&Assignment{}, 1, 1); len(got) != 2 {
		t.Errorf("a session for which nothing was decided: %v", got)
	}
}

// anyAssignment draws a session as Decide would have made it.
func anyAssignment(t *rapid.T) Assignment {
	u := rapid.Float64Range(0, 1)
	a := Assignment{
		Control: rapid.Bool().Draw(t, "control"), ControlP: u.Draw(t, "g"), Category: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "cat"),
		Base: u.Draw(t, "base"), C: u.Draw(t, "c"), Decided: true, Day: rapid.Int32Range(0, 5).Draw(t, "day"),
		Refused: rapid.Bool().Draw(t, "refused"),
	}
	if rapid.Bool().Draw(t, "heard") {
		a.First = &AtClosing{Y: u.Draw(t, "first"), Tier: rapid.IntRange(0, 4).Draw(t, "first tier")}
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "matched") {
		arm := Arm(fmt.Sprintf("l%d@1", i))
		a.Matched = append(a.Matched, Match{Arm: arm, Del: trial.Round(rapid.Float64Range(-0.5, 0.5).Draw(t, "del"))})
		if !a.Control && rapid.Bool().Draw(t, "picked") {
			a.Picks = append(a.Picks, Pick{
				Slug: arm.Slug(), Arm: arm, Eps: rapid.SampledFrom([]float64{0.05, 0.2, 0.5, 0.9, 0, 1}).Draw(t, "eps"),
				Injected: rapid.Bool().Draw(t, "inj"), M: 0.02, Off: trial.Round(u.Draw(t, "off")), C: trial.Round(clip(u.Draw(t, "centre"), 0.05, 0.95)), Tokens: 9,
			})
		}
	}
	return a
}

// dump writes all counters down.
func dump(c *Chooser) string {
	var out string
	show := func(name string, a *arm) {
		out += fmt.Sprintln(name, a.buckets, a.total, a.sum, a.up, a.dn, a.strata)
	}
	show("", c.global)
	for _, k := range c.Arms() {
		show(string(k), c.arms[k])
	}
	for _, k := range []string{"x:", "x:x", "x:y"} {
		if a := c.cats[k]; a != nil {
			show(k, a)
		}
	}
	return out
}

// The promise on which undoing, replicas and late feedback rest: sums do not know in which order,
// how often undone and redone, and over how many replicas the rewards came; and a record that went
// through JSON contributes the same bytes.
func TestSumsForgetTheirHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		straight, crooked, left, right := New(), New(), New(), New()
		var steps [][]Delta
		for range rapid.IntRange(1, 6).Draw(t, "sessions") {
			a := anyAssignment(t)
			y, tier := rapid.Float64Range(0, 1).Draw(t, "y"), rapid.IntRange(0, 4).Draw(t, "tier")
			used := trial.Usage{Input: int64(rapid.IntRange(0, 1<<40).Draw(t, "input")), Cached: int64(rapid.IntRange(0, 1<<40).Draw(t, "cached"))}
			final := slices.Concat(a.Closing(), a.Spent(used), Contribution(&a, y, tier))
			straight.Add(final)
			stored := clone(t, a)
			steps = append(steps, stored.Closing(), stored.Spent(used), Contribution(&stored, y, tier))
			for range rapid.IntRange(0, 2).Draw(t, "corrections") {
				wrong := Contribution(&stored, rapid.Float64Range(0, 1).Draw(t, "wrong"), 3)
				steps = append(steps, wrong, trial.Negate(wrong))
			}
		}
		for i, s := range rapid.Permutation(steps).Draw(t, "order") {
			crooked.Add(s)
			[]*Chooser{left, right}[i%2].Add(merge(s))
		}
		want := dump(straight)
		if got := dump(drop(crooked)); got != want {
			t.Fatalf("permuted:\n%s\nstraight:\n%s", got, want)
		}
		union := New()
		union.Add(merge(raw(left), raw(right)))
		union.touch(straight)
		if got := dump(union); got != want {
			t.Fatalf("merged:\n%s\nstraight:\n%s", got, want)
		}
	})
}

// drop removes the empty buckets and strata that an undone reward leaves in memory (a store has no
// such rows).
func drop(c *Chooser) *Chooser {
	for _, a := range append(mapValues(c.arms), append(mapValues(c.cats), c.global)...) {
		a.buckets = slices.DeleteFunc(a.buckets, func(b bucket) bool { return b.v == [dated]int64{} })
		a.strata = slices.DeleteFunc(a.strata, func(s stratum) bool { return s == stratum{eps: s.eps} })
	}
	return c
}

func mapValues[K comparable](m map[K]*arm) (out []*arm) {
	for _, a := range m {
		out = append(out, a)
	}
	return out
}

// raw writes counters back as deltas, as a store would hold them.
func raw(c *Chooser) (out []Delta) {
	fields := []string{fN1, fS1, fN0, fS0, fNU, fSU, fN, fZ, fZZ, fClosed}
	plain := []string{
		fM1, fY1, fM0, fY0, fMatched, fPicked, fTokens, fSuccess, fFailure, fBetter, fWorse, fTold, fSumY, fGraded, fRes2, fCN, fCS,
		fSpent + "0", fInput + "0", fCached + "0", fSpent + "1", fInput + "1", fCached + "1",
		fRefused + "0", fRefused + "1",
	}
	one := func(scope string, a *arm) {
		for _, b := range a.buckets {
			for i, v := range b.v {
				out = append(out, delta(scope, fields[i], b.day, v))
			}
		}
		for i, v := range a.sum {
			out = append(out, delta(scope, plain[i], 0, v))
		}
		for k := range bets {
			out = append(out, delta(scope, fmt.Sprint(wUp, k+1), 0, a.up[k]), delta(scope, fmt.Sprint(wDown, k+1), 0, a.dn[k]))
		}
		for _, s := range a.strata {
			for arm := range 2 {
				out = append(out, delta(scope, fmt.Sprintf("a%d@%d", arm, s.eps), 0, s.assigned[arm]))
				for tier := range tiers {
					out = append(out, delta(scope, fmt.Sprintf("told%d.%d@%d", arm, tier, s.eps), 0, s.told[arm][tier]),
						delta(scope, fmt.Sprintf("heard%d.%d@%d", arm, tier, s.eps), 0, s.heard[arm][tier]))
				}
				out = append(out, delta(scope, fmt.Sprintf("y%d@%d", arm, s.eps), 0, s.y[arm]))
			}
		}
	}
	one("", c.global)
	for k, a := range c.arms {
		one(string(k), a)
	}
	for k, a := range c.cats {
		one(k, a)
	}
	return out
}

// touch makes the scopes that the other has, so that dumps compare.
func (c *Chooser) touch(other *Chooser) {
	for k := range other.arms {
		c.scope(string(k), true)
	}
	for k := range other.cats {
		c.scope(k, true)
	}
}

func TestMergeAndNegate(t *testing.T) {
	a := sampleAssignment()
	ds := Contribution(&a, 1, 1)
	if got := merge(ds, trial.Negate(ds)); len(got) != 0 {
		t.Errorf("an undone contribution leaves %v", got)
	}
	if got := trial.Told(merge(ds, ds)); got != 2 {
		t.Errorf("%d rewards, want 2", got)
	}
	change := merge(trial.Negate(Contribution(&a, 1, 1)), Contribution(&a, 0, 1))
	if got := trial.Told(change); got != 0 {
		t.Errorf("a correction is %d rewards", got)
	}
	if !slices.IsSortedFunc(change, func(x, y Delta) int {
		if x.Scope != y.Scope {
			return map[bool]int{true: -1, false: 1}[x.Scope < y.Scope]
		}
		return map[bool]int{true: -1, false: 1}[x.Field <= y.Field]
	}) {
		t.Error("merged deltas are not sorted")
	}
}

// merge sums deltas by key, drops zeros, and sorts: the smallest set of writes with the same
// effect.
func merge(sets ...[]Delta) []Delta {
	sum := map[Key]int64{}
	for _, ds := range sets {
		for _, d := range ds {
			sum[d.Key] += d.Value
		}
	}
	out := make([]Delta, 0, len(sum))
	for k, v := range sum {
		if v != 0 {
			out = append(out, Delta{Key: k, Value: v})
		}
	}
	slices.SortFunc(out, func(x, y Delta) int {
		return cmp.Or(cmp.Compare(x.Scope, y.Scope), cmp.Compare(x.Field, y.Field), cmp.Compare(x.Day, y.Day))
	})
	return out
}
