package trial_test

import (
	"cmp"
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"precept/bandit/trial"
)

func key(scope, field string, day int32) trial.Key {
	return trial.Key{Scope: scope, Field: field, Day: day}
}

func deltaValue(ds []trial.Delta, scope, field string, day int32) float64 {
	for _, d := range ds {
		if d.Key == key(scope, field, day) {
			return float64(d.Value) / trial.FixedScale
		}
	}
	return 0
}

// The fields n1, n0 and nu count rewarded sessions in which the lesson was injected, withheld or not picked. The fields
// y1 and y0 are sums of rewards. The field z is the sum of what each session contributes to the effect estimate, and zz
// is the sum of the squares. The field told1.2@200000 counts tier 2 rewards in injected sessions with epsilon 0.2, and
// w+1 is a log e-value.
func TestContributionMatchesFormulas(t *testing.T) {
	a := sampleAssignment()
	ds := a.Contribution(1, 2)
	z := (1 - 0.55) / 0.8
	for _, tc := range []struct {
		scope, field string
		day          int32
		want         float64
	}{
		{"", trial.FieldRewarded, 0, 1},
		{"", "sumy", 0, 1},
		{"", "n1", 20000, 1},
		{"", "s1", 20000, 1},
		{"", "n0", 20000, 0},
		{"", "n", 20000, 1},
		{"", "z", 20000, (1 - 0.55) / 0.95},
		{"", "zz", 20000, math.Pow((1-0.55)/0.95, 2)},
		{"", "told1.2@50000", 0, 1},

		{"in@1", "n1", 20000, 1},
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

		{"in@1", "nu", 20000, 0}, // the lesson was picked

		{"out@1", "n0", 20000, 1},
		{"out@1", "nu", 20000, 0},
		{"out@1", "m0", 0, 1},
		{"out@1", "y0", 0, 1},
		{"out@1", "success", 0, 0},
		{"out@1", "z", 20000, -(1 - 0.59) / 0.5},
		{"out@1", "told0.2@500000", 0, 1},
		{"out@1", "w+6", 0, math.Log(1 - 0.16*(1-0.59)/0.5)},

		{"not@1", "nu", 20000, 1},
		{"not@1", "n", 20000, 0},
		{string(trial.LoopArm), "n1", 20000, 1},
		{string(trial.LoopArm), "z", 20000, 0.6 / 0.8},
	} {
		if got := deltaValue(ds, tc.scope, tc.field, tc.day); math.Abs(got-tc.want) > 1e-6 {
			t.Errorf("scope %q, field %s = %v, want %v", tc.scope, tc.field, got, tc.want)
		}
	}
	ds = a.Contribution(0.3, 3)
	for field, want := range map[string]float64{"failure": 1, "success": 0, "worse": 0.35, "y1": 0.3} {
		if got := deltaValue(ds, "in@1", field, 0); math.Abs(got-want) > 1e-6 {
			t.Errorf("reward 0.3, field %s = %v, want %v", field, got, want)
		}
	}
}

func TestMatchesInControlSessionsAreCounted(t *testing.T) {
	a := trial.Assignment{Control: true, ControlP: 0.05, Category: "c", Base: 0.6, Centre: 0.5, Decided: true, Day: 7, Matched: []trial.Match{{Arm: "a@1", MatchEffect: -0.1}, {Arm: "b@1", MatchEffect: 0.02}}}
	ds := a.Contribution(1, 1)
	if deltaValue(ds, "a@1", "nu", 7) != 1 {
		t.Errorf("match in a control session: nu = %v, want 1", deltaValue(ds, "a@1", "nu", 7))
	}
	if got := deltaValue(ds, "", "z", 7); math.Abs(got+0.5/0.05) > 1e-6 {
		t.Errorf("control session: z = %v, want %v", got, -0.5/0.05)
	}
	if deltaValue(a.ClosingDeltas(), "", "a0@50000", 0) != 1 || deltaValue(ds, "", "told0.1@50000", 0) != 1 || deltaValue(ds, "", "n0", 7) != 1 {
		t.Errorf("control session: a0 = %v, told0.1 = %v, n0 = %v, want 1 for all three counters",
			deltaValue(a.ClosingDeltas(), "", "a0@50000", 0), deltaValue(ds, "", "told0.1@50000", 0), deltaValue(ds, "", "n0", 7))
	}
	a.Matched = nil
	if ds = a.Contribution(1, 1); deltaValue(ds, "", "n0", 7) != 0 || deltaValue(ds, "", trial.FieldRewarded, 0) != 1 {
		t.Errorf("control session without a match: n0 = %v, rewarded sessions = %v, want 0 and 1", deltaValue(ds, "", "n0", 7), deltaValue(ds, "", trial.FieldRewarded, 0))
	}
}

// With epsilon 0 or 1, a pick is not random. Such a pick changes neither the comparison (the n, z and zz fields) nor
// the e-values (the fields w+1 to w-6).
func TestUnrandomizedPickAddsNoComparison(t *testing.T) {
	for _, eps := range []float64{0, 1} {
		a := sampleAssignment()
		a.ControlP = eps
		for i := range a.Picks {
			a.Picks[i].Eps = eps
		}
		for _, d := range a.Contribution(1, 1) {
			if d.Key.Field == "n" || d.Key.Field == "z" || d.Key.Field == "zz" || d.Key.Field[0] == 'w' && d.Key.Field != "worse" {
				t.Errorf("epsilon %v: Contribution has delta %v, want no comparison delta", eps, d)
			}
		}
	}
	a := sampleAssignment()
	a.Picks[0].Eps = 0
	if deltaValue(a.Contribution(1, 1), "in@1", "m1", 0) != 1 {
		t.Errorf("injected pick with epsilon 0: m1 = %v, want 1", deltaValue(a.Contribution(1, 1), "in@1", "m1", 0))
	}
}

func TestClosingDeltasCountMatchesPicksAndTokens(t *testing.T) {
	a := sampleAssignment()
	ds := a.ClosingDeltas()
	type counter struct {
		scope, field string
		day          int32
	}
	for k, want := range map[counter]float64{
		{"", "closed", 20000}: 1, {"", "a1@50000", 0}: 1,
		{"in@1", "matched", 0}: 1, {"in@1", "picked", 0}: 1, {"in@1", "a1@200000", 0}: 1, {"in@1", "tokens", 0}: 30,
		{"out@1", "picked", 0}: 1, {"out@1", "a0@500000", 0}: 1, {"out@1", "tokens", 0}: 0,
		{"not@1", "matched", 0}: 1, {"not@1", "picked", 0}: 0,
		{string(trial.LoopArm), "matched", 0}: 1, {string(trial.LoopArm), "a1@200000", 0}: 1,
	} {
		if got := deltaValue(ds, k.scope, k.field, k.day); got != want {
			t.Errorf("counter %+v = %v, want %v", k, got, want)
		}
	}
	empty := trial.Assignment{Decided: true, ControlP: 0.05, Day: 3}
	if ds := empty.ClosingDeltas(); len(ds) != 1 || ds[0].Key.Field != "closed" {
		t.Errorf("session without matches: deltas = %v, want only a delta for the field closed", ds)
	}
}

func TestContributionHandlesInvalidInput(t *testing.T) {
	a := sampleAssignment()
	if a.Contribution(math.NaN(), 1) != nil {
		t.Errorf("reward NaN: deltas = %v, want none", a.Contribution(math.NaN(), 1))
	}
	if !reflect.DeepEqual(a.Contribution(7, 1), a.Contribution(1, 1)) || !reflect.DeepEqual(a.Contribution(-1, 1), a.Contribution(0, 1)) {
		t.Error("rewards outside 0 to 1: Contribution(7) differs from Contribution(1), or Contribution(-1) from Contribution(0), want equal deltas")
	}
	if deltaValue(a.Contribution(1, 99), "in@1", "told1.0@200000", 0) != 1 {
		t.Errorf("unknown tier 99: told1.0 = %v, want 1", deltaValue(a.Contribution(1, 99), "in@1", "told1.0@200000", 0))
	}
	a.Excluded = true
	if a.Contribution(1, 1) != nil {
		t.Errorf("excluded session: reward deltas = %v, want none", a.Contribution(1, 1))
	}
	if want := []trial.Delta{{Key: key("", "excluded.unknown", 0), Value: trial.FixedScale}}; !reflect.DeepEqual(a.ClosingDeltas(), want) {
		t.Errorf("excluded session: deltas at close = %v, want only the delta for the reason, %v", a.ClosingDeltas(), want)
	}
	if got := (&trial.Assignment{}).Contribution(1, 1); len(got) != 2 {
		t.Errorf("undecided session: deltas = %v, want 2", got)
	}
}

func TestNegateCancelsContribution(t *testing.T) {
	a := sampleAssignment()
	ds := a.Contribution(1, 1)
	if got := mergeDeltas(ds, trial.Negate(ds)); len(got) != 0 {
		t.Errorf("contribution plus negation = %v, want none", got)
	}
	if got := trial.CountRewards(mergeDeltas(ds, ds)); got != 2 {
		t.Errorf("two contributions: CountRewards = %d, want 2", got)
	}
	change := mergeDeltas(trial.Negate(a.Contribution(1, 1)), a.Contribution(0, 1))
	if got := trial.CountRewards(change); got != 0 {
		t.Errorf("correction: CountRewards = %d, want 0", got)
	}
	if !slices.IsSortedFunc(change, func(x, y trial.Delta) int {
		if x.Key.Scope != y.Key.Scope {
			return map[bool]int{true: -1, false: 1}[x.Key.Scope < y.Key.Scope]
		}
		return map[bool]int{true: -1, false: 1}[x.Key.Field <= y.Key.Field]
	}) {
		t.Errorf("merged deltas = %v, want them ordered by scope and field", change)
	}
}

func mergeDeltas(sets ...[]trial.Delta) []trial.Delta {
	sum := map[trial.Key]int64{}
	for _, ds := range sets {
		for _, d := range ds {
			sum[d.Key] += d.Value
		}
	}
	out := make([]trial.Delta, 0, len(sum))
	for k, v := range sum {
		if v != 0 {
			out = append(out, trial.Delta{Key: k, Value: v})
		}
	}
	slices.SortFunc(out, func(x, y trial.Delta) int {
		return cmp.Or(cmp.Compare(x.Key.Scope, y.Key.Scope), cmp.Compare(x.Key.Field, y.Key.Field), cmp.Compare(x.Key.Day, y.Key.Day))
	})
	return out
}

func TestMeanZIsEffectForAnyExpectation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := rapid.Float64Range(0, 1)
		with, without, eps := u.Draw(t, "with"), u.Draw(t, "without"), rapid.Float64Range(0.01, 0.99).Draw(t, "eps")
		p := trial.Pick{Arm: "a@1", Eps: eps, MeanEffect: u.Draw(t, "m"), Offset: u.Draw(t, "off"), Centre: u.Draw(t, "c")}
		z := func(injected bool, y float64) float64 {
			p.Injected = injected
			a := trial.Assignment{Base: u.Draw(t, "base"), Matched: []trial.Match{{Arm: "a@1", MatchEffect: u.Draw(t, "del")}}, Picks: []trial.Pick{p}}
			return deltaValue(a.Contribution(y, 1), "a@1", "z", 0)
		}
		if got := (1-eps)*z(true, with) + eps*z(false, without); math.Abs(got-(with-without)) > 1e-5 {
			t.Fatalf("mean z = %v, want effect %v", got, with-without)
		}
	})
}

// The first picks are the picks of a session's first decision. The field any.a0 counts the sessions in which all first
// picks were withheld, and any.a1 the sessions in which at least one was injected. The number after @ is the
// probability, in millionths, that all first picks are withheld.
func TestLoopWarningIsNotCountedAsFirstPick(t *testing.T) {
	a := trial.Assignment{
		Decided: true, Looped: true, ControlP: 0.05, Matched: []trial.Match{{Arm: "out@1"}},
		Picks: []trial.Pick{
			{Slug: trial.LoopArm.Slug(), Arm: trial.LoopArm, Eps: 0.5, Injected: true, Turn: 1},
			{Slug: "out", Arm: "out@1", Eps: 0.2, Turn: 2},
		},
	}
	ds := a.ClosingDeltas()
	for field, want := range map[string]float64{"any.a0@200000": 1, "any.a1@100000": 0, "any.a0@100000": 0} {
		if got := deltaValue(ds, "", field, 0); got != want {
			t.Errorf("field %s = %v, want %v", field, got, want)
		}
	}
}

// A refusal means that the upstream rejected a request that precept changed. If the request was refused because
// sections were cut (CutRefused), the refusal counts only for these sections. Any other refusal counts for all arms.
func TestRefusalsCountForAffectedArms(t *testing.T) {
	a := trial.Assignment{Decided: true, ControlP: 0.5, Matched: []trial.Match{{Arm: "a@1"}}, Picks: []trial.Pick{
		{Slug: "a", Arm: "a@1", Eps: 0.5, Injected: true}, {Slug: "rule:F#s", Arm: "rule:F#s@1", Eps: 0.5}, {Slug: "rule:F#k", Arm: "rule:F#k@1", Eps: 0.5, Injected: true},
	}}
	for _, tc := range []struct {
		name                               string
		refused, cutRefused, measuredRules bool
		want                               [4]float64 // lesson, cut section, kept section, all lessons
	}{
		{name: "no refusal", measuredRules: true},
		{name: "cut refused", cutRefused: true, measuredRules: true, want: [4]float64{0, 1, 1, 0}},
		{name: "insertion refused", refused: true, measuredRules: true, want: [4]float64{1, 1, 1, 0}},
		{name: "insertion refused, no measured sections", refused: true, want: [4]float64{1, 1, 1, 1}},
	} {
		a.Refused, a.CutRefused, a.HasMeasuredRules = tc.refused, tc.cutRefused, tc.measuredRules
		ds := a.ClosingDeltas()
		got := [4]float64{deltaValue(ds, "a@1", "refused1", 0), deltaValue(ds, "rule:F#s@1", "refused0", 0), deltaValue(ds, "rule:F#k@1", "refused1", 0), deltaValue(ds, "", "refused1", 0)}
		if got != tc.want {
			t.Errorf("%s: [lesson, cut section, kept section, all lessons] = %v, want %v", tc.name, got, tc.want)
		}
	}
}
