package report

import (
	"fmt"
	"math"
	"slices"

	"precept/bandit/trial"
)

// likelyDeviations is the smallest mean effect for the verdicts "likely helps" and "likely harms", in posterior
// standard deviations.
const likelyDeviations = 2.5

func (b *builder) verdict(r *Row, s trial.Stats, belief Belief) Verdict {
	if !r.SRM.OK || !r.Reporting.OK || !r.LateReporting.OK {
		return Invalid
	}
	if r.Effect != nil { // a row with too few picks for an effect has no proven verdict either
		if v := b.holdoutVerdict(r, s); v != Unproven {
			return v
		}
	}
	switch z := belief.Mean / math.Sqrt(math.Max(belief.Var, 1e-12)); {
	case z > likelyDeviations:
		return LikelyHelps
	case z < -likelyDeviations:
		return LikelyHarms
	case belief.Benched && r.Slug != trial.LoopArm.Slug(): // the loop warning is always picked
		return Benched
	}
	return Unproven
}

// holdoutVerdict returns the verdict that the experiment gives, without the chooser's beliefs. The row must have an
// effect.
func (b *builder) holdoutVerdict(r *Row, s trial.Stats) Verdict {
	if v := b.proven(s); v != Unproven {
		return v
	}
	if v := r.trialVerdict(); v == TrialHelps || v == TrialHarms {
		return v
	}
	all := armSums(s)
	up, down := maxDistances(s)
	switch bar := -math.Log(b.claimBar); {
	case b.claimBar <= 0, up >= bar && down >= bar: // the effect's sign has changed
	case up >= bar && all.effect() > 0:
		return Helps
	case down >= bar && all.effect() < 0:
		return Harms
	}
	if s.Maxima.NoEffectAt > 0 {
		return NoEffect
	}
	if _, lo, hi := all.interval(trial.LessonTightestAt); intervalVerdict(lo, hi) == NoEffect {
		return NoEffect
	}
	return Unproven
}

// maxDistances returns how far the row's interval ever was above and below 0, as ln(1/p). Earlier distances count as
// well, because the interval is valid at all times simultaneously.
func maxDistances(s trial.Stats) (up, down float64) {
	up, down = s.Maxima.MaxAbove, s.Maxima.MaxBelow
	if all := armSums(s); all.hasEnoughPicks() && trial.EnoughForVerdict(s.Rewards.M1, s.Rewards.M0) {
		distance := -math.Log(math.Max(all.pValue(), math.SmallestNonzeroFloat64))
		if all.effect() > 0 {
			up = math.Max(up, distance)
		} else {
			down = math.Max(down, distance)
		}
	}
	return up, down
}

func (b *builder) proven(s trial.Stats) Verdict {
	switch {
	case s.Maxima.LogEHelps > 0 && trial.PValue(s.Maxima.LogEHelps) <= b.proofBar:
		return ProvenHelps
	case s.Maxima.LogEHarms > 0 && trial.PValue(s.Maxima.LogEHarms) <= b.proofBar:
		return ProvenHarms
	}
	return Unproven
}

// claimRate is the nominal level for calling rows "helps" or "harms". The measured error rate is lower, because an
// interval that is valid at all times is wide. If a fifth of the lessons help, one such row in ten was wrong after
// 40,000 sessions (docs/decisions/0044).
const claimRate = 0.50

// claimError is the measured error rate in rows called "helps" or "harms", rounded up.
const claimError = 0.10

// claimBars returns the largest p-value for the verdicts "helps" and "harms", and the p-value that one more row needs
// to pass. An interval that excludes 0 does not suffice: if few lessons have an effect, most rows with such a verdict
// would be wrong.
func (b *builder) claimBars(rows []Lesson) (bar, next float64) {
	var ps []float64
	for _, l := range rows {
		s := b.in.Counters.Stats(l.Arm)
		if armSums(s).hasEnoughPicks() && trial.EnoughForVerdict(s.Rewards.M1, s.Rewards.M0) && b.proven(s) == Unproven {
			up, down := maxDistances(s)
			ps = append(ps, math.Exp(-math.Max(up, down)))
		}
	}
	slices.Sort(ps)
	return math.Min(trial.Discoveries(ps, len(ps), claimRate), trial.Alpha),
		math.Min(trial.NextDiscovery(ps, len(ps), claimRate), trial.Alpha)
}

// Caution reports whether a lesson is presented as a caution. better and worse are the fields in Belief, which are
// relative to the expected reward. Raw counts of successes and failures would turn a third of the helpful lessons into
// cautions, because good lessons fire in hard sessions.
func Caution(outcome string, better, worse float64) bool {
	return outcome == "failure" || worse > better
}

func (r *Row) note(s trial.Stats) string {
	switch r.Verdict {
	case Invalid:
		return invalidReason(r)
	case ProvenHelps, ProvenHarms:
		if zero := r.ZeroNote(); zero != "" {
			return zero
		}
	case TrialHelps, TrialHarms:
		return joinSentences("by the trial's single evaluation; one in twenty such rows may be wrong", r.ZeroNote())
	case Helps, Harms:
		return joinSentences("one in ten such rows may be wrong", r.ZeroNote())
	case LikelyHelps, LikelyHarms:
		return "predicted by the chooser's model, not measured"
	case Benched:
		if r.Trial == trialRunning {
			return "the chooser expects harm; the trial continues"
		}
		return "the chooser expects harm"
	case Unproven:
		if r.Lo == nil || *r.Lo <= 0 && *r.Hi >= 0 {
			break
		}
		if !trial.EnoughForVerdict(s.Rewards.M1, s.Rewards.M0) {
			return "the interval excludes 0, but a verdict needs 50 rewarded sessions with the lesson and 50 without"
		}
		return "the interval excludes 0, but with so many lessons some intervals do so by chance"
	case NoEffect:
	}
	switch {
	case r.Epsilon <= 0:
		return "the lesson is never withheld, so its effect cannot be measured"
	case r.Epsilon >= 1:
		return "the lesson is always withheld, so its effect cannot be measured"
	}
	return ""
}

func joinSentences(first, second string) string {
	if second == "" {
		return first
	}
	return first + "; " + second
}

func invalidReason(r *Row) string {
	if !r.SRM.OK {
		return fmt.Sprintf("the random assignment deviates from the configured probabilities (e-value %.3g)", r.SRM.EValue)
	}
	if r.Reporting.OK {
		return fmt.Sprintf("the lesson changes which sessions get a reward after closing (e-value %.3g)", r.LateReporting.EValue)
	}
	return fmt.Sprintf(
		"the lesson changes which sessions have a reward, or the reward source (e-value %.3g)", r.Reporting.EValue,
	)
}

// Conditions for proposing to retire a lesson.
const (
	retireBenchedDays = 60   // number of days for which the chooser has expected harm
	retirePicks       = 200  // minimum number of rewarded picks of a benched lesson (one that the chooser expects to do harm)
	retireUseful      = 0.01 // smallest useful effect: one point
	retireChance      = 0.05 // largest probability of a useful effect, by the chooser's model
)

// retireReason returns why retiring a lesson is proposed, or "". Low traffic alone is not a reason.
func (b *builder) retireReason(r *Row, l Lesson, belief Belief) string {
	switch {
	case isPast(l.State) || l.Arm == trial.LoopArm || l.Arm.IsRule() || r.Verdict == Invalid:
		return ""
	case l.Expired:
		return "the lesson has expired"
	case l.Superseded:
		return "another lesson has superseded this lesson"
	case r.Trial == trialRunning: // retiring would end the trial without a result
		return ""
	case r.Verdict == TrialHarms:
		return "the trial found harm"
	case r.Hi != nil && *r.Hi < retireUseful:
		return "the whole interval is below 1 point"
	case r.Rewarded >= retirePicks && belief.Benched && b.benchedSince(l):
		return "the lesson has been benched for 60 days"
	case r.Rewarded > 0 && probabilityAbove(retireUseful, belief) < retireChance:
		return "an effect above 1 point is unlikely (under 5%, by the chooser's model)"
	}
	return ""
}

// benchedSince reports whether the chooser expected harm on each of four days spread over the last retireBenchedDays
// days.
func (b *builder) benchedSince(l Lesson) bool {
	today := trial.Day(b.in.Now)
	for back := int32(retireBenchedDays); back > 0; back -= 15 {
		if b.in.Chooser.BelievedAt(l, today-back) >= 0 {
			return false
		}
	}
	return true
}

// intervalVerdict returns the verdict that an interval permits without a correction for multiple tests.
func intervalVerdict(lo, hi float64) Verdict {
	switch {
	case lo > 0:
		return Helps
	case hi < 0:
		return Harms
	case lo >= -trial.MaterialEffect && hi <= trial.MaterialEffect:
		return NoEffect
	}
	return Unproven
}
