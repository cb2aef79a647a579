package trial

import (
	"math"
	"slices"
)

// Outcome is a quantity observed in every session's traffic, with or without a reward.
type Outcome uint8

// The outcomes, ordered as in the Measurement arrays.
const (
	Recurrence  Outcome = iota // 1 if an error that the lesson is about recurs
	Errors                     // failed tool calls
	Loops                      // 1 if a loop is found
	Corrections                // 1 if the user corrects or rejects the agent's work
	Turns                      // agent requests
	Tokens                     // tokens, as reported by the upstream
	Seconds                    // time until the newest request or reply
	OutcomeCount
)

// outcomeNames are the names in reports, exports, lesson files and counters.
var outcomeNames = [OutcomeCount]string{"recurrence", "errors", "loops", "corrections", "turns", "tokens", "seconds"} //nolint:gochecknoglobals // an immutable list

func (o Outcome) String() string {
	if o >= OutcomeCount {
		return ""
	}
	return outcomeNames[o]
}

// ParseOutcome returns the outcome with a name.
func ParseOutcome(name string) (o Outcome, ok bool) {
	i := slices.Index(outcomeNames[:], name)
	if i < 0 {
		return 0, false
	}
	return Outcome(i), true //nolint:gosec // a list index
}

// OutcomeNames returns all outcome names.
func OutcomeNames() []string { return slices.Clone(outcomeNames[:]) }

// Logarithmic reports whether the value is a count's logarithm. If so, means are geometric, and an effect is a change
// in per cent.
func (o Outcome) Logarithmic() bool { return o >= Turns }

// needsScale reports whether an outcome's e-values need the spread of the values. They do if the outcome has values
// other than 0 and 1.
func (o Outcome) needsScale() bool { return o == Errors || o.Logarithmic() }

const (
	maxErrors = 10 // a session with more failed calls counts as a session with ten
	logRange  = 24 // base-2 logarithm of the largest count, 16.7 million
)

// Value converts an observation (for Seconds: in milliseconds) to the experiment's scale, which is 0 to 1.
func (o Outcome) Value(x int64) float64 {
	v := float64(max(x, 0))
	switch {
	case o == Errors:
		return min(v, maxErrors) / maxErrors
	case o == Seconds:
		v /= 1000
	case !o.Logarithmic():
		return min(v, 1)
	}
	return min(math.Log2(1+v)/logRange, 1)
}

// CountFromValue converts a logarithmic outcome's mean back to a count: the geometric mean of 1 + x, less 1.
func CountFromValue(value float64) float64 { return math.Exp2(logRange*value) - 1 }

// PercentChange converts an effect on a logarithmic outcome to a change in per cent.
func PercentChange(effect float64) float64 { return 100 * (math.Exp2(logRange*effect) - 1) }

// EffectFromPercent converts a change in per cent to an effect on a logarithmic outcome.
func EffectFromPercent(change float64) float64 { return math.Log2(1+change/100) / logRange }

// Totals holds running sums from the traffic, for one session or for all sessions in a unit, such as a run. A pick's
// outcomes are the sums when the session closes minus the sums at the pick.
type Totals struct {
	Errors       int64 `json:"e,omitempty"`
	Loops        int64 `json:"l,omitempty"`
	Corrections  int64 `json:"c,omitempty"`
	Turns        int64 `json:"t,omitempty"`
	Tokens       int64 `json:"k,omitempty"`
	NewestMillis int64 `json:"at,omitempty"` // newest request or reply, in milliseconds since 1970
}

// Add adds the sums for a part of the session.
func (t *Totals) Add(o Totals) {
	t.Errors, t.Loops, t.Corrections = t.Errors+o.Errors, t.Loops+o.Loops, t.Corrections+o.Corrections
	t.Turns, t.Tokens, t.NewestMillis = t.Turns+o.Turns, t.Tokens+o.Tokens, max(t.NewestMillis, o.NewestMillis)
}

// Merge merges two states of one replica's sums. The larger sum is the newer one.
func (t *Totals) Merge(o Totals) {
	t.Errors, t.Loops, t.Corrections = max(t.Errors, o.Errors), max(t.Loops, o.Loops), max(t.Corrections, o.Corrections)
	t.Turns, t.Tokens, t.NewestMillis = max(t.Turns, o.Turns), max(t.Tokens, o.Tokens), max(t.NewestMillis, o.NewestMillis)
}

func (t *Totals) since(from *Totals) (after [OutcomeCount]int64) {
	after[Errors], after[Loops], after[Corrections] = t.Errors-from.Errors, t.Loops-from.Loops, t.Corrections-from.Corrections
	after[Turns], after[Tokens], after[Seconds] = t.Turns-from.Turns, t.Tokens-from.Tokens, t.NewestMillis-from.NewestMillis
	return after
}

// OutcomeSet is a set of outcomes, one bit each.
type OutcomeSet uint8

// NewOutcomeSet returns the set of the given outcomes.
func NewOutcomeSet(list ...Outcome) (s OutcomeSet) {
	for _, o := range list {
		s |= 1 << o
	}
	return s
}

// Has reports whether the set contains an outcome.
func (s OutcomeSet) Has(o Outcome) bool { return s&(1<<o) != 0 }

// Measurement measures a pick's outcomes. The centres, widths and weight are computed from earlier sessions alone and
// frozen at the pick, so they do not depend on the random decision. Recurred, Closed and After are observed after the
// pick.
type Measurement struct {
	Outcomes OutcomeSet            `json:"of,omitempty"`   // the measured outcomes; 0 if none
	From     Totals                `json:"from,omitzero"`  // sums at the pick
	Centres  [OutcomeCount]float64 `json:"c,omitzero"`     // values expected before the random decision
	Width    [OutcomeCount]float64 `json:"w,omitzero"`     // distance from the centre at which the e-values cap a value; 0 means no e-values
	Weight   float64               `json:"l,omitempty"`    // weight of the surrogate (surrogate.go)
	Recurred bool                  `json:"rec,omitempty"`  // an error that the lesson is about occurred after the pick
	Closed   bool                  `json:"end,omitempty"`  // After is set
	After    [OutcomeCount]int64   `json:"after,omitzero"` // observations from the pick until the session closes, by outcome
}

// Value returns the value of a measured outcome in a closed session.
func (w *Measurement) Value(o Outcome) (y float64, ok bool) {
	if !w.Closed || !w.Outcomes.Has(o) {
		return 0, false
	}
	return Round(o.Value(w.After[o])), true
}

// Observe sets the outcomes for all picks when a session closes with the sums t.
func (a *Assignment) Observe(t Totals) {
	a.Graded = true
	for i := range a.Picks {
		w := &a.Picks[i].Measurement
		if w.Outcomes == 0 {
			continue
		}
		w.After, w.Closed = t.since(&w.From), true
		if w.Recurred {
			w.After[Recurrence] = 1
		}
	}
}
