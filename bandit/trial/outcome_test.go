package trial_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"precept/bandit/trial"
)

const recurred = true // argument for pickWithOutcomes: the error occurred again

// pickWithOutcomes returns a session with one pick, closed with the given totals. Before the pick, the session had 3
// errors, 2 turns, 100 tokens and 5 seconds.
func pickWithOutcomes(injected, recurred bool, after trial.Totals) *trial.Assignment {
	a := &trial.Assignment{Decided: true, Day: 20000}
	w := trial.Measurement{Outcomes: 1<<trial.OutcomeCount - 1, From: trial.Totals{Errors: 3, Turns: 2, Tokens: 100, NewestMillis: 5000}, Recurred: recurred}
	for o := range trial.OutcomeCount {
		w.Centres[o], w.Width[o] = 0.5, 1
	}
	a.Picks = []trial.Pick{{Slug: "in", Arm: "in@1", Eps: 0.2, Injected: injected, Measurement: w}}
	a.Observe(after)
	return a
}

// The value of an outcome lies between 0 and 1. For a count x after the pick, such as x tokens, the value is log2(1 +
// x) / 24, and for x errors, x / 10.
func TestOutcomesMeasureSessionAfterPick(t *testing.T) {
	a := pickWithOutcomes(injected, recurred, trial.Totals{Errors: 5, Loops: 2, Corrections: 1, Turns: 9, Tokens: 1123, NewestMillis: 20_000})
	want := map[trial.Outcome]float64{
		trial.Recurrence: 1, trial.Errors: 0.2, trial.Loops: 1, trial.Corrections: 1,
		trial.Turns: math.Log2(8) / 24, trial.Tokens: 10. / 24, trial.Seconds: math.Log2(16) / 24,
	}
	for o, y := range want {
		if got, ok := a.Picks[0].Measurement.Value(o); !ok || math.Abs(got-y) > 1e-6 {
			t.Errorf("Value(%s) = %v, %v, want %v, true", o, got, ok, y)
		}
	}
	if n := trial.CountFromValue(math.Log2(8) / 24); math.Abs(n-7) > 1e-9 {
		t.Errorf("CountFromValue(Value(7 turns)) = %v, want 7", n)
	}
	if c := trial.PercentChange(trial.EffectFromPercent(40)); math.Abs(c-40) > 1e-9 {
		t.Errorf("PercentChange(EffectFromPercent(40)) = %v, want 40", c)
	}
	if y := trial.Errors.Value(50); y != 1 {
		t.Errorf("Errors.Value(50) = %v, want the maximum, 1", y)
	}
}

func TestOutcomeSumsMatchFormulas(t *testing.T) {
	with := pickWithOutcomes(injected, recurred, trial.Totals{Errors: 3, Turns: 2, Tokens: 100, NewestMillis: 5000}).ClosingDeltas()
	without := pickWithOutcomes(withheld, !recurred, trial.Totals{Errors: 5, Turns: 2, Tokens: 100, NewestMillis: 5000}).ClosingDeltas()
	z := 0.5 / 0.8
	for _, tc := range []struct {
		ds    []trial.Delta
		field string
		want  float64
	}{
		{with, "recurrence.n1", 1},
		{with, "recurrence.n0", 0},
		{with, "recurrence.y1", 1},
		{with, "recurrence.z", z},
		{with, "recurrence.zz", z * z},
		{with, "recurrence.w+1", math.Log(1 + 0.03*z)},
		{with, "recurrence.w-4", math.Log(1 - 0.18*z)}, // the largest bet is 0.9 times eps
		{with, "errors.y1", 0},
		{without, "recurrence.n0", 1},
		{without, "recurrence.z", 0.5 / 0.2},
		{without, "errors.y0", 0.2},
		{without, "errors.z", (0.5 - 0.2) / 0.2},
	} {
		if got := deltaValue(tc.ds, "in@1", tc.field, 0); math.Abs(got-tc.want) > 1e-6 {
			t.Errorf("field %s = %v, want %v", tc.field, got, tc.want)
		}
	}
}

// Outcomes are counted when a session closes. A later reward adds no outcome, and neither does an excluded session or a
// pick that was not random.
func TestOutcomesAreCountedOnlyAtClose(t *testing.T) {
	a := pickWithOutcomes(injected, recurred, trial.Totals{Errors: 4})
	counted := trial.NewCounters()
	counted.Add(a.ClosingDeltas())
	counted.Add(a.Contribution(1, 2))
	if got := counted.Outcomes("in@1")[trial.Recurrence]; got.N1 != 1 || got.N0 != 0 {
		t.Errorf("rewarded session: outcome counts = %+v, want N1 = 1 and N0 = 0", got)
	}
	certain, open := pickWithOutcomes(injected, recurred, trial.Totals{}), pickWithOutcomes(injected, recurred, trial.Totals{})
	certain.Picks[0].Eps, open.Picks[0].Measurement.Closed = 0, false
	excluded := pickWithOutcomes(injected, recurred, trial.Totals{})
	excluded.Excluded = true
	for name, a := range map[string]*trial.Assignment{"non-random pick": certain, "open session": open, "excluded session": excluded} {
		none := trial.NewCounters()
		none.Add(a.ClosingDeltas())
		if got := none.Outcomes("in@1")[trial.Recurrence]; got.N1+got.N0 != 0 {
			t.Errorf("%s: outcome counts = %+v, want zeros", name, got)
		}
	}
}

// The sums are equal for every order of the sessions, and in a clone.
func TestOutcomeSumsDoNotDependOnOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the tests need repeatable numbers
	var all [][]trial.Delta
	for range 80 {
		all = append(all, pickWithOutcomes(r.IntN(5) > 0, r.IntN(2) == 0, trial.Totals{
			Errors: 3 + r.Int64N(12), Loops: r.Int64N(2), Turns: 2 + r.Int64N(40), Tokens: r.Int64N(1 << 20), NewestMillis: 5000 + r.Int64N(1e6),
		}).ClosingDeltas())
	}
	one, two := trial.NewCounters(), trial.NewCounters()
	for _, ds := range all {
		one.Add(ds)
	}
	for _, i := range r.Perm(len(all)) {
		two.Add(all[i])
		two.Add(trial.Negate(all[i]))
		two.Add(all[i])
	}
	from, every := trial.Totals{Turns: 1}, trial.OutcomeSet(1<<trial.OutcomeCount-1)
	for name, other := range map[string]*trial.Counters{"other order with corrections": two, "clone": one.Clone()} {
		if !reflect.DeepEqual(one.Outcomes("in@1"), other.Outcomes("in@1")) {
			t.Errorf("%s: Outcomes(in@1) = %+v, want %+v", name, other.Outcomes("in@1"), one.Outcomes("in@1"))
		}
		for _, arm := range []trial.Arm{"in@1", "new@1"} {
			if one.NewMeasurement(arm, 0.2, every, from) != other.NewMeasurement(arm, 0.2, every, from) {
				t.Errorf("%s: NewMeasurement(%s) = %+v, want %+v", name, arm, other.NewMeasurement(arm, 0.2, every, from), one.NewMeasurement(arm, 0.2, every, from))
			}
		}
	}
}

// The measurement of a new lesson starts at the mean over all lessons. For an outcome that is a count, such as tokens,
// the width is 0 before 50 picks, so there is no e-value yet.
func TestMeasurementStartsAtAllLessonsMean(t *testing.T) {
	c := trial.NewCounters()
	every := trial.OutcomeSet(1<<trial.OutcomeCount - 1)
	if w := c.NewMeasurement("in@1", 0.2, every, trial.Totals{}); w.Centres[trial.Recurrence] != 0.5 || w.Width[trial.Recurrence] != 1 || w.Width[trial.Tokens] != 0 {
		t.Errorf("measurement before any session: got %+v, want centre 0.5 and width 1 for recurrence, and width 0 for tokens", w)
	}
	for i := range 60 {
		c.Add(pickWithOutcomes(i%2 == 0, i%4 == 0, trial.Totals{Tokens: int64(100 + i)}).ClosingDeltas()) // the error recurs in half the injected sessions
	}
	if w := c.NewMeasurement("new@1", 0.2, every, trial.Totals{}); math.Abs(w.Centres[trial.Recurrence]-0.25) > 0.01 || w.Width[trial.Tokens] != 0 {
		t.Errorf("measurement of a new lesson: got %+v, want the centre of all lessons, 0.25, for recurrence, and width 0 for tokens", w)
	}
	w := c.NewMeasurement("in@1", 0.2, every, trial.Totals{})
	with, without := (15+10*15.5/61)/40, (10*15.5/61)/40
	if want := 0.2*with + 0.8*without; math.Abs(w.Centres[trial.Recurrence]-want) > 1e-6 || !(w.Width[trial.Tokens] > 0) {
		t.Errorf("measurement of a lesson with 60 picks: got %+v, want centre %v for recurrence, and a width above 0 for tokens", w, want)
	}
	if w := c.NewMeasurement("in@1", 0.2, trial.NewOutcomeSet(trial.Errors), trial.Totals{}); w.Centres[trial.Recurrence] != 0 {
		t.Errorf("NewMeasurement(errors only) = %+v, want centre 0 for recurrence", w)
	}
}

// A record that an older version of precept stored contains no measurement of outcomes.
func TestStoredAssignmentKeepsOutcomes(t *testing.T) {
	a := pickWithOutcomes(injected, recurred, trial.Totals{Errors: 9, NewestMillis: 1})
	data, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var b trial.Assignment
	if err := json.Unmarshal(data, &b); err != nil || !reflect.DeepEqual(a.ClosingDeltas(), b.ClosingDeltas()) {
		t.Errorf("loaded assignment: error = %v, ClosingDeltas = %+v, want no error and %+v", err, b.ClosingDeltas(), a.ClosingDeltas())
	}
	var old trial.Assignment
	if err := json.Unmarshal([]byte(`{"p":[{"slug":"in","arm":"in@1","eps":0.2,"inj":true}]}`), &old); err != nil {
		t.Fatal(err)
	}
	old.Observe(trial.Totals{Turns: 5})
	if _, ok := old.Picks[0].Measurement.Value(trial.Turns); ok {
		t.Error("record from an older version: got a value for turns, want none")
	}
}

func TestEvidenceBarIsBenjaminiHochbergThreshold(t *testing.T) {
	for _, tc := range []struct {
		eValues []float64
		want    float64
	}{
		{[]float64{1, 1, 1, 1}, 80},
		{[]float64{100, 1, 1, 1}, 80},
		{[]float64{50, 41, 1, 1}, 40},
		{[]float64{21, 22, 23, 24}, 20},
		{nil, 20},
	} {
		logs := make([]float64, len(tc.eValues))
		for i, e := range tc.eValues {
			logs[i] = math.Log(e)
		}
		if got := math.Exp(trial.EvidenceBar(logs, 0.05)); math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("EvidenceBar(%v) = %v, want %v", tc.eValues, got, tc.want)
		}
	}
}

// A trial on an outcome counts every closed pick. A trial on the reward counts only rewarded picks.
func TestTrialOnOutcomeCountsEveryClosedPick(t *testing.T) {
	a := pickWithOutcomes(withheld, recurred, trial.Totals{})
	a.Picks[0].Centre = 0.5
	for name, want := range map[string][2]int{"900.60.recurrence": {1, 1}, "900.60": {0, 1}, "900.60.errors": {1, 1}} {
		a.Picks[0].Trial = name
		if got := [2]int{len(a.TrialEntries("0123456789", math.NaN())), len(a.TrialEntries("0123456789", 1))}; got != want {
			t.Errorf("trial %s: entries for a session without a reward and for one with a reward: got %d, want %d", name, got, want)
		}
	}
	a.Picks[0].Trial = "900.60.recurrence"
	c := trial.NewCounters()
	c.Add(a.TrialEntries("0123456789", math.NaN()))
	evaluations := c.Evaluations()
	if len(evaluations) != 1 || evaluations[0].Outcome != "recurrence" || evaluations[0].Planned != 60 || math.Abs(evaluations[0].Z+0.5/0.2) > 1e-6 {
		t.Errorf("evaluations = %+v, want one evaluation of recurrence, with 60 planned picks and Z = %v", evaluations, -0.5/0.2)
	}
	a.Picks[0].Measurement.Closed = false
	if ds := a.TrialEntries("0123456789", 1); len(ds) != 0 {
		t.Errorf("open session: TrialEntries = %v, want none", ds)
	}
}
