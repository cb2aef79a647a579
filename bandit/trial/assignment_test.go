package trial_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"precept/bandit/trial"
)

// sampleAssignment returns an assignment with an injected, a withheld and an unpicked lesson, and a loop warning.
func sampleAssignment() trial.Assignment {
	return trial.Assignment{
		ControlP: 0.05, Category: "cat", Base: 0.6, Centre: 0.55, Decided: true, Day: 20000,
		Matched: []trial.Match{{Arm: "in@1", MatchEffect: -0.1}, {Arm: "out@1", MatchEffect: 0.05}, {Arm: "not@1", MatchEffect: 0}},
		Picks: []trial.Pick{
			{Slug: "in", Arm: "in@1", Eps: 0.2, Injected: true, MeanEffect: 0.04, Offset: 0.65, Centre: 0.55, Tokens: 30, Turn: 1},
			{Slug: "out", Arm: "out@1", Eps: 0.5, Injected: false, MeanEffect: 0.02, Offset: 0.54, Centre: 0.59, Tokens: 50, Turn: 1},
			{Slug: "loop-warning", Arm: trial.LoopArm, Eps: 0.2, Injected: true, MeanEffect: 0.01, Offset: 0.59, Centre: 0.4, Turn: 3},
		},
	}
}

// The JSON names of the fields cannot change, because other versions of precept read the stored records.
func TestAssignmentJSONNamesAreFixed(t *testing.T) {
	a := sampleAssignment()
	b, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"g":0.05,"cat":"cat","base":0.6,"c":0.55,"dec":true,"m":[{"arm":"in@1","del":-0.1},{"arm":"out@1","del":0.05},{"arm":"not@1","del":0}],` +
		`"p":[{"slug":"in","arm":"in@1","eps":0.2,"inj":true,"m":0.04,"off":0.65,"c":0.55,"tok":30,"turn":1,"p":0}`
	if string(b[:len(want)]) != want {
		t.Errorf("JSON = %s, want prefix %q", b, want)
	}
}

func TestArmSlugHasNoHash(t *testing.T) {
	for arm, want := range map[trial.Arm]string{"a@0123456789ab": "a", "a@1.caution": "a", "a@b@1": "a@b", "@1": "", "a": "a", "": "", trial.LoopArm: "loop-warning"} {
		if got := arm.Slug(); got != want {
			t.Errorf("%q.Slug() = %q, want %q", arm, got, want)
		}
	}
}

// Propensity is the share of all sessions, including control sessions, in which a picked lesson is injected.
func TestPropensityIsInjectionFrequency(t *testing.T) {
	const sessions = 20_000
	for _, tc := range []struct{ control, eps float64 }{{0, 0.2}, {0.05, 0.2}, {0.3, 0.5}, {0.1, 0.05}, {0, 0}, {0, 1}} {
		injected, withheld, p := 0.0, 0.0, math.NaN()
		for i := range sessions {
			var a trial.Assignment
			name := fmt.Sprintf("%032x", i)
			a.FlipControl("salt", name, tc.control)
			if a.Control {
				continue
			}
			a.Flip("salt", name, trial.Pick{Slug: "a", Eps: tc.eps})
			if p = a.Picks[0].Propensity; a.Picks[0].Injected {
				injected++
			} else {
				withheld++
			}
		}
		for subject, x := range map[string][2]float64{"injected": {injected / sessions, p}, "withheld": {withheld / sessions, tc.eps * (1 - tc.control)}} {
			if se := math.Sqrt(x[1] * (1 - x[1]) / sessions); math.Abs(x[0]-x[1]) > 4*se+1e-12 {
				t.Errorf("%+v: %s share = %v, want %v", tc, subject, x[0], x[1])
			}
		}
	}
}

// Pick finds only picks, and Match finds only matches. A change to a clone does not change the original.
func TestAssignmentReturnsPicksAndMatches(t *testing.T) {
	a := sampleAssignment()
	if p, ok := a.Pick("in"); !ok || p.Arm != "in@1" {
		t.Errorf(`Pick(in) = %+v, %v, want Arm "in@1", true`, p, ok)
	}
	if m, ok := a.Match("out@1"); !ok || m.MatchEffect != 0.05 {
		t.Errorf("Match(out@1) = %+v, %v, want MatchEffect 0.05, true", m, ok)
	}
	if _, ok := a.Pick("not"); ok {
		t.Error(`Pick("not"): got an entry, want none, because the lesson matched but was not picked`)
	}
	if _, ok := a.Match(trial.LoopArm); ok {
		t.Error("Match: got an entry for the loop warning, want none, because the warning is only a pick")
	}
	b := a.Clone()
	b.Matched[0].MatchEffect, b.Picks[0].Injected = 9, false
	if !reflect.DeepEqual(a, sampleAssignment()) {
		t.Errorf("after changing the clone: original = %+v, want %+v", a, sampleAssignment())
	}
	for want, a := range map[bool]trial.Assignment{true: {Looped: true}, false: {}} {
		if a.InComparison() != want {
			t.Errorf("%+v: InComparison = %v, want %v", a, !want, want)
		}
	}
}

// Merge combines the assignments that two replicas stored for a session. The order of the two does not matter.
func TestMergeIsSymmetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawAssignment(t), drawAssignment(t)
		a.Decided, b.Decided = rapid.Bool().Draw(t, "a decided"), rapid.Bool().Draw(t, "b decided")
		for _, x := range []*trial.Assignment{&a, &b} {
			if reason := rapid.SampledFrom([]trial.ExclusionReason{"", trial.ExcludedLate, trial.ExcludedTwin}).Draw(t, "excluded for"); reason != "" {
				x.Exclude(reason)
			}
		}
		first := rapid.Bool().Draw(t, "a first")
		x, y := a.Clone(), b.Clone()
		x.Merge(&b, first)
		y.Merge(&a, !first)
		if a.Decided == b.Decided && !a.Decided { // if neither assignment is decided, Merge returns its argument
			return
		}
		if !reflect.DeepEqual(x, y) {
			t.Fatalf("Merge(a, b) and Merge(b, a) differ:\n%+v\n%+v", x, y)
		}
		kept, other := &a, &b
		if !a.Decided || b.Decided && !first {
			kept, other = &b, &a
		}
		if x.Control != kept.Control || x.Base != kept.Base || x.Centre != kept.Centre || x.ControlP != kept.ControlP || !x.Decided {
			t.Fatalf("merged assignment = %+v, want the decision in %+v", x, kept)
		}
		if x.Excluded != (a.Excluded || b.Excluded) || x.Refused != (a.Refused || b.Refused) {
			t.Fatalf("merged assignment = %+v, want Excluded and Refused if either side has them", x)
		}
		if want := cmp.Or(kept.ExcludedFor, other.ExcludedFor); x.ExcludedFor != want {
			t.Fatalf("merged ExcludedFor = %q, want %q", x.ExcludedFor, want)
		}
		if kept.Category == "" && (x.Category != other.Category || x.Day != other.Day || x.StartUnix != other.StartUnix) || kept.Category != "" && x.Day != kept.Day {
			t.Fatalf("merged assignment = %+v, want the category and day of %+v, or if these are empty, those of %+v", x, kept, other)
		}
		for _, p := range slices.Concat(kept.Picks, other.Picks) {
			want, ok := kept.Pick(p.Slug)
			if !ok {
				want = p
			}
			if got, _ := x.Pick(p.Slug); got != want {
				t.Fatalf("merged pick = %+v, want %+v", got, want)
			}
		}
		for _, m := range slices.Concat(kept.Matched, other.Matched) {
			want, ok := kept.Match(m.Arm)
			if !ok {
				want = m
			}
			if got, _ := x.Match(m.Arm); got != want {
				t.Fatalf("merged match = %+v, want %+v", got, want)
			}
		}
		second := x.Clone()
		if second.Merge(&b, first); !reflect.DeepEqual(second.Picks, x.Picks) || !reflect.DeepEqual(second.Matched, x.Matched) {
			t.Fatalf("second Merge = %+v, want picks and matches %+v", second, x)
		}
	})
}

// The two copies of the session have different texts of the same lesson.
func TestMergeKeepsEarlierLessonText(t *testing.T) {
	newAssignment := func(arm trial.Arm) *trial.Assignment {
		return &trial.Assignment{Decided: true, Matched: []trial.Match{{Arm: arm}}, Picks: []trial.Pick{{Slug: "a", Arm: arm}}}
	}
	a := newAssignment("a@old")
	a.Merge(newAssignment("a@new"), true /* aIsOlder */)
	if len(a.Matched) != 1 || len(a.Picks) != 1 || a.Picks[0].Arm != "a@old" {
		t.Errorf(`merged assignment = %+v, want one match and one pick of "a@old"`, a)
	}
	a = newAssignment("a@old")
	if a.Merge(newAssignment("a@new"), false /* aIsOlder */); len(a.Matched) != 1 || len(a.Picks) != 1 || a.Picks[0].Arm != "a@new" {
		t.Errorf(`merged assignment = %+v, want one match and one pick of "a@new"`, a)
	}
}

// A session that contains a measured section of a rules file does not count when treated sessions are compared with
// control sessions.
func TestSessionWithMeasuredSectionCountsOnlyForArms(t *testing.T) {
	global := []string{trial.FieldInjected, trial.FieldWithheld, "z", "zz", "added", "billed0", "billed1", "read0", "read1"}
	for _, control := range []bool{false, true} {
		a := trial.Assignment{Decided: true, Control: control, ControlP: 0.5, Centre: 0.25, Day: 3, Matched: []trial.Match{{Arm: "a@1"}}}
		if !control {
			a.Picks = []trial.Pick{{Slug: "a", Arm: "a@1", Eps: 0.5, Injected: true, Tokens: 7, Centre: 0.5}}
		}
		for _, measured := range []bool{false, true} {
			a.HasMeasuredRules = measured
			compared, arms := 0, 0
			if leftOut := deltaValue(a.ClosingDeltas(), "", "beside", 0); leftOut > 0 != measured {
				t.Errorf("control %t, measured section %t: got %v sessions counted as left out, want more than 0 only with a measured section",
					control, measured, leftOut)
			}
			for _, d := range slices.Concat(a.ClosingDeltas(), a.Contribution(1, 0), a.CostDeltas(trial.Usage{Input: 1000})) {
				switch {
				case d.Key.Scope != "":
					arms++
				case slices.Contains(global, d.Key.Field):
					compared++
				}
			}
			if arms == 0 || compared > 0 == measured {
				t.Errorf("control %t, measured section %t: got %d comparison deltas and %d arm deltas, want at least one arm delta, and comparison deltas only without a measured section", control, measured, compared, arms)
			}
		}
	}
}
