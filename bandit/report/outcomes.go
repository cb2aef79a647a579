package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"precept/bandit/trial"
)

// Finding is the conclusion about one of a lesson's outcomes. No finding contains "helps", which is a verdict on the
// reward.
type Finding string

// The findings. If a finding has the prefix "proven: ", its e-value passes the correction for all lessons and outcomes.
const (
	Prevents          Finding = "proven: prevents its error" // the error that the lesson is about occurs less often
	FewerErrors       Finding = "fewer errors"               // lower recurrence, errors, loops or corrections
	MoreErrors        Finding = "more errors"                // higher recurrence, errors, loops or corrections
	Shorter           Finding = "shorter"                    // fewer turns, tokens or seconds
	Longer            Finding = "dearer"                     // more turns, tokens or seconds
	NoChange          Finding = "no material effect"         // the interval is within the smallest change that an operator would act on
	NotProven         Finding = "unproven"                   // needs more picks
	InvalidAssignment Finding = "invalid"                    // the random assignment is faulty: no conclusion
)

// Direction reports whether the outcome falls (-1) or rises (+1), 0 for neither.
func (f Finding) Direction() int {
	switch Finding(strings.TrimPrefix(string(f), provenPrefix)) {
	case FewerErrors, Shorter, Prevents[len(provenPrefix):]:
		return -1
	case MoreErrors, Longer:
		return +1
	default:
		return 0
	}
}

// Proven reports whether the finding is proven.
func (f Finding) Proven() bool { return strings.HasPrefix(string(f), provenPrefix) }

const provenPrefix = "proven: "

// Outcome compares one quantity, observed in the session after the pick, with and without the lesson.
type Outcome struct {
	Name         string   `json:"name"`       // recurrence, errors, loops, corrections, turns, tokens or seconds
	NInjected    int64    `json:"n_injected"` // closed picks with random assignment, rewarded or not
	NWithheld    int64    `json:"n_withheld"`
	MeanInjected *float64 `json:"mean_injected"` // turns, tokens and seconds: geometric mean of 1 + x, minus 1
	MeanWithheld *float64 `json:"mean_withheld"`
	Effect       *float64 `json:"effect"` // null below 50 picks, 5 in each arm
	Lo           *float64 `json:"lo"`     // 95% interval, valid at any time
	Hi           *float64 `json:"hi"`
	Unit         string   `json:"unit"` // share (0.05 means 5 of 100 sessions), errors/10 (failed calls divided by 10), or percent (change in the geometric mean of 1 + x)
	Verdict      Finding  `json:"verdict"`
	NeedsPicks   int64    `json:"needs_picks"`         // picks until a verdict is likely; 0 once there is a verdict
	NeedsUnclear bool     `json:"needs_picks_unclear"` // needs_picks depends so much on chance that pages show no number
	EFewer       float64  `json:"e_fewer"`             // current e-value for a fall, capped at 1e12
	EMore        float64  `json:"e_more"`              // current e-value for a rise, capped at 1e12
	P            *float64 `json:"p"`                   // level at which the interval would exclude 0
	Variance     float64  `json:"variance"`            // variance of the value around the centre, to plan a trial
}

// outcomeBars holds one outcome's thresholds, corrected for the tests on all lessons.
type outcomeBars struct {
	claim     float64 // largest interval p-value for a finding that is not proven
	fewer     float64 // smallest log e-value that proves a fall
	more      float64 // smallest log e-value that proves a rise
	lessons   int     // lessons with a pick
	nextClaim float64 // claim if one more lesson had a finding
}

// findingErrorRate is the accepted share of wrong rows among the findings that are not proven.
const findingErrorRate = 0.10

// minFindingPerArm is the minimum number of injected picks, and of withheld picks, for a finding from the interval.
// With fewer picks, the variance is not known well enough.
const minFindingPerArm = 15

func outcomeSums(s *trial.OutcomeStats) sums { return sums{s.N1 + s.N0, s.Z, s.ZZ, s.N1, s.N0} }

// canClaim reports whether the picks suffice for a finding from the interval.
func canClaim(s sums) bool {
	return s.hasEnoughPicks() && s.injected >= minFindingPerArm && s.withheld >= minFindingPerArm
}

// recurrenceShare is the share of the permitted false proofs that is reserved for lower recurrence (the error that the
// lesson is about occurs less often). The other tests share the rest. The share is large so that the other tests hardly
// delay a proof of lower recurrence.
const recurrenceShare = 0.8

// findOutcomeBars returns the thresholds for each outcome. The interval p-values are corrected for each outcome
// separately. The e-values for proven findings are corrected over all lessons, outcomes and directions together, so at
// most one in twenty proven rows may be wrong.
//
// The correction for e-values is trial.EvidenceBar with weights that have mean 1.
func (b *builder) findOutcomeBars(rows []Lesson) (bars [trial.OutcomeCount]outcomeBars) {
	var ps, fewer, more [trial.OutcomeCount][]float64
	tests := 0
	for _, l := range rows {
		stats := b.in.Counters.Outcomes(l.Arm)
		for o := range trial.OutcomeCount {
			s := &stats[o]
			if s.N1+s.N0 == 0 {
				continue
			}
			tests += 2
			bars[o].lessons++
			fewer[o], more[o] = append(fewer[o], s.LogEFewer), append(more[o], s.LogEMore)
			if picks := outcomeSums(s); canClaim(picks) {
				ps[o] = append(ps[o], picks.pValue())
			}
		}
	}
	recurrence, others := weights(len(fewer[trial.Recurrence]), tests)
	family := make([]float64, 0, tests)
	for o := range bars {
		slices.Sort(ps[o])
		bar := &bars[o]
		bar.claim = math.Min(trial.Discoveries(ps[o], bar.lessons, findingErrorRate), trial.Alpha)
		bar.nextClaim = math.Min(trial.NextDiscovery(ps[o], bar.lessons, findingErrorRate), trial.Alpha)
		bar.fewer, bar.more = others, others
		if trial.Outcome(o) == trial.Recurrence {
			bar.fewer = recurrence
		}
		for _, e := range fewer[o] {
			family = append(family, e+bar.fewer)
		}
		for _, e := range more[o] {
			family = append(family, e+bar.more)
		}
	}
	needed := trial.EvidenceBar(family, trial.DiscoveryRate)
	for o := range bars {
		bars[o].fewer, bars[o].more = needed-bars[o].fewer, needed-bars[o].more
	}
	return bars
}

// weights returns the logarithms of two weights: the weight of each test for lower recurrence, and the weight of each
// other test. The mean weight over all tests is 1.
func weights(recurrenceTests, tests int) (recurrence, others float64) {
	if recurrenceTests == 0 {
		return 0, 0
	}
	recurrence = recurrenceShare * float64(tests) / float64(recurrenceTests)
	others = (1 - recurrenceShare) * float64(tests) / float64(tests-recurrenceTests)
	return math.Log(recurrence), math.Log(others)
}

func (b *builder) rowOutcomes(r *Row, k trial.Arm) (out []Outcome) {
	stats := b.in.Counters.Outcomes(k)
	for o := range trial.OutcomeCount {
		s := &stats[o]
		if s.N1+s.N0 == 0 || o.Logarithmic() && s.Y1+s.Y0 == 0 {
			continue
		}
		all := outcomeSums(s)
		x := Outcome{
			Name: o.String(), NInjected: int64(s.N1), NWithheld: int64(s.N0), Unit: outcomeUnit(o),
			MeanInjected: outcomeMean(o, s.Y1, s.N1), MeanWithheld: outcomeMean(o, s.Y0, s.N0),
			EFewer: math.Min(math.Exp(s.LogEFewer), maxEValue), EMore: math.Min(math.Exp(s.LogEMore), maxEValue),
		}
		if all.hasEnoughPicks() {
			e, lo, hi := all.interval(trial.LessonTightestAt)
			x.Effect, x.Lo, x.Hi = new(inUnit(o, e)), new(inUnit(o, lo)), new(inUnit(o, hi))
			x.P = new(all.pValue())
			x.Variance = all.variance() / measuredVarianceFactor(s)
		}
		x.Verdict = b.outcomeFinding(r, o, s)
		if x.Verdict == NotProven {
			x.NeedsPicks = picksNeeded(o, all, b.outcomeBars[o].nextClaim)
			x.NeedsUnclear = isUnclear(all, func(effect float64) float64 {
				return picksAtVerdict(effect, all.variance(), materialChange(o), b.outcomeBars[o].nextClaim)
			})
		}
		out = append(out, x)
	}
	return out
}

// measuredVarianceFactor returns trial.VarianceFactor for the share of picks that were withheld.
func measuredVarianceFactor(s *trial.OutcomeStats) float64 {
	return trial.VarianceFactor(s.N0 / (s.N1 + s.N0))
}

func startVariance(o trial.Outcome) float64 {
	switch {
	case o.Logarithmic():
		return 0.01
	case o == trial.Errors:
		return 0.04
	}
	return 0.24
}

func (b *builder) outcomeFinding(r *Row, o trial.Outcome, s *trial.OutcomeStats) Finding {
	all, bar := outcomeSums(s), &b.outcomeBars[o]
	if !r.SRM.OK {
		return InvalidAssignment
	}
	if !all.hasEnoughPicks() {
		return NotProven
	}
	for _, planned := range slices.Backward(r.PlannedTrials) {
		if f := Finding(planned.Verdict); planned.Outcome == o.String() && f.Proven() {
			return f
		}
	}
	e, lo, hi := all.interval(trial.LessonTightestAt)
	switch {
	case s.LogEFewer >= bar.fewer && e < 0:
		if o == trial.Recurrence {
			return Prevents
		}
		return provenPrefix + findingFor(o, -1)
	case s.LogEMore >= bar.more && e > 0:
		return provenPrefix + findingFor(o, +1)
	case canClaim(all) && all.pValue() <= bar.claim:
		return findingFor(o, e)
	case lo >= -materialChange(o) && hi <= materialChange(o):
		return NoChange
	}
	return NotProven
}

func findingFor(o trial.Outcome, effect float64) Finding {
	switch {
	case o.Logarithmic() && effect < 0:
		return Shorter
	case o.Logarithmic():
		return Longer
	case effect < 0:
		return FewerErrors
	}
	return MoreErrors
}

// materialChange returns the smallest change that an operator would act on.
func materialChange(o trial.Outcome) float64 {
	if o.Logarithmic() {
		return trial.EffectFromPercent(10)
	}
	return 0.05
}

// picksNeeded returns how many further picks turn an unchanged effect into a finding, which has a p-value of at most
// level.
func picksNeeded(o trial.Outcome, all sums, level float64) int64 {
	shortfall := max(0, remaining(minFindingPerArm, all.injected), remaining(minFindingPerArm, all.withheld))
	if !all.hasEnoughPicks() {
		shortfall = max(remaining(trial.MinPicks, all.count), remaining(trial.MinPerArm, all.injected), remaining(trial.MinPerArm, all.withheld))
		return max(shortfall, 1)
	}
	return max(remaining(picksAtVerdict(all.effect(), all.variance(), materialChange(o), level), all.count), shortfall, 1)
}

const (
	unitShare   = "share"
	unitErrors  = "errors/10"
	unitPercent = "percent"
)

func outcomeUnit(o trial.Outcome) string {
	switch {
	case o.Logarithmic():
		return unitPercent
	case o == trial.Errors:
		return unitErrors
	}
	return unitShare
}

// inUnit converts an effect on turns, tokens or seconds to a change in per cent.
func inUnit(o trial.Outcome, effect float64) float64 {
	if o.Logarithmic() {
		return trial.PercentChange(effect)
	}
	return effect
}

func outcomeMean(o trial.Outcome, sum, n float64) *float64 {
	m := mean(sum, n)
	if m != nil && o.Logarithmic() {
		return new(trial.CountFromValue(*m))
	}
	return m
}

// guardrailFindings returns the findings on the outcomes in report.guardrails that rise with the lesson, joined by
// commas.
func (r *Row) guardrailFindings(guardrails []string) string {
	var out []string
	for i := range r.Outcomes {
		x := &r.Outcomes[i]
		finding := strings.TrimPrefix(string(x.Verdict), provenPrefix)
		if x.Verdict.Direction() > 0 && slices.Contains(guardrails, x.Name) && !slices.Contains(out, finding) {
			out = append(out, finding)
		}
	}
	return strings.Join(out, ", ")
}

// Sentence describes an outcome in one line.
func (o *Outcome) Sentence() string {
	s := fmt.Sprintf("%s %s", o.Name, o.Verdict)
	switch {
	case o.Effect == nil:
	case o.IsVague():
		s += ": " + TooWide
	default:
		s += ": " + o.Interval()
	}
	return s + " (" + o.Amounts() + ")"
}

// TooWide is shown instead of a vague effect.
const TooWide = "the interval is still too wide"

// IsVague reports whether the interval includes 0 and is so wide that the effect says nothing: a change by a factor of
// four, 100 points or ten failed calls. After few picks, such an effect can contradict the means.
func (o *Outcome) IsVague() bool {
	const maxShare, maxPercent = 1, 300
	if o.Effect == nil || *o.Lo > 0 || *o.Hi < 0 {
		return false
	}
	if o.Unit == unitPercent {
		return *o.Hi >= maxPercent
	}
	return *o.Hi-*o.Lo >= maxShare
}

// Amounts states the mean with and without the lesson, and the number of picks.
func (o *Outcome) Amounts() string {
	s := fmt.Sprintf("%s with the lesson, %s without; %d injected picks, %d withheld", o.amount(o.MeanInjected), o.amount(o.MeanWithheld), o.NInjected, o.NWithheld)
	switch {
	case o.NeedsUnclear:
		s += "; too early to estimate how many more picks are needed"
	case o.NeedsPicks > 0 && o.Effect == nil:
		s += fmt.Sprintf("; needs about %d more picks", o.NeedsPicks)
	case o.NeedsPicks > 0:
		s += fmt.Sprintf("; needs about %s more picks", Grouped(roundEstimate(o.NeedsPicks)))
	}
	return s
}

// Interval returns the effect and the interval as text, or "" while there are too few picks.
func (o *Outcome) Interval() string {
	if o.Effect == nil {
		return ""
	}
	scaled, unit := Points, " points"
	switch o.Unit {
	case unitErrors:
		scaled, unit = func(effect float64) float64 { return Points(effect) / 10 }, " failed calls"
	case unitPercent:
		scaled, unit = func(effect float64) float64 { return effect }, "%"
	}
	return signedInterval(scaled(*o.Effect), scaled(*o.Lo), scaled(*o.Hi)) + unit
}

func (o *Outcome) amount(m *float64) string {
	switch {
	case m == nil:
		return "-"
	case o.Unit == unitShare:
		return fmt.Sprintf("%.0f%%", 100**m)
	case o.Unit == unitErrors:
		return fmt.Sprintf("%.1f", 10**m)
	}
	return fmt.Sprintf("%.*f", cmp.Or(1-min(1, int(*m/100)), 0), *m)
}
