package report

import (
	"fmt"
	"math"
	"slices"

	"precept/bandit/trial"
)

// likely is how many posterior standard deviations from 0 the chooser's model must be for a
// "likely".
const likely = 2.5

// verdict is the first that holds.
func (b *builder) verdict(r *Row, s trial.Stats, p Belief) Verdict {
	if !r.SRM.OK || !r.Reporting.OK {
		return Invalid
	}
	if r.Effect != nil { // a proof without an effect to show for it would only puzzle
		if v := b.shown(r, s); v != Unproven {
			return v
		}
	}
	switch z := p.Mean / math.Sqrt(math.Max(p.Var, 1e-12)); {
	case z > likely:
		return LikelyHelps
	case z < -likely:
		return LikelyHarms
	case p.Benched && r.Slug != trial.LoopArm.Slug(): // the warning is never benched: only its coin decides
		return Benched
	}
	return Unproven
}

// shown is what the holdout alone says, once its effect may be shown.
func (b *builder) shown(r *Row, s trial.Stats) Verdict {
	if v := b.proven(s); v != Unproven {
		return v
	}
	if v := r.looked(); v == TrialHelps || v == TrialHarms {
		return v
	}
	all := holdout(s)
	up, down := excluded(s)
	switch bar := -math.Log(b.claim); {
	case b.claim <= 0, up >= bar && down >= bar: // both: it has turned, and what it was says nothing of what it is
	case up >= bar && all.effect() > 0:
		return Helps
	case down >= bar && all.effect() < 0:
		return Harms
	}
	if s.IdleAt > 0 {
		return NoEffect
	}
	if _, lo, hi := all.interval(trial.TightLesson); causal(lo, hi) == NoEffect {
		return NoEffect
	}
	return Unproven
}

// excluded is how far above and below 0 the row's interval is, or ever was, as logarithms of 1/p.
// What was reached stays, because the interval holds at all times at once: a claim that was made
// may stand.
func excluded(s trial.Stats) (up, down float64) {
	up, down = s.OutUp, s.OutDown
	if all := holdout(s); all.shown() && trial.Claimable(s.M1, s.M0) {
		far := -math.Log(math.Max(all.exclusion(), math.SmallestNonzeroFloat64))
		if all.effect() > 0 {
			up = math.Max(up, far)
		} else {
			down = math.Max(down, far)
		}
	}
	return up, down
}

func (b *builder) proven(s trial.Stats) Verdict {
	switch {
	case s.LogUp > 0 && trial.PValue(s.LogUp) <= b.proof:
		return ProvenHelps
	case s.LogDown > 0 && trial.PValue(s.LogDown) <= b.proof:
		return ProvenHarms
	}
	return Unproven
}

// claimRate is the nominal level at which rows are called "helps" or "harms". The sequence is wide,
// because it holds at all times: at this level one such row in sixteen was wrong after 10,000
// sessions, and one in ten after 40,000, where a fifth of the lessons help (docs/decisions/0044).
const claimRate = 0.50

// claimError is what that comes to, rounded up.
const claimError = 0.10

// claims is how far from 0 an interval must have been, as a p-value, before the row is called
// "helps" or "harms". That it excludes 0 is not enough: of many lessons that do nothing one in
// twenty does so, and where few lessons do anything those would be most of the rows that are called
// something.
func (b *builder) claims(rows []Lesson) (bar, next float64) {
	var ps []float64
	for _, l := range rows {
		s := b.in.Counters.Stats(l.Arm)
		if holdout(s).shown() && trial.Claimable(s.M1, s.M0) && b.proven(s) == Unproven {
			up, down := excluded(s)
			ps = append(ps, math.Exp(-math.Max(up, down)))
		}
	}
	slices.Sort(ps)
	return math.Min(trial.Discoveries(ps, len(ps), claimRate), trial.Alpha),
		math.Min(trial.NextDiscovery(ps, len(ps), claimRate), trial.Alpha)
}

// Caution says whether a lesson is to be presented as something that failed before: when it is
// about a failure, or when its published failures exceed its successes relative to baseline (Better
// and Worse of a Belief). On raw counts a third of the helpful lessons would be called
// cautions, because good lessons fire on hard sessions.
func Caution(outcome string, better, worse float64) bool {
	return outcome == "failure" || worse > better
}

// Widened says whether the interval of now holds 0 although the coins called the row something:
// what they said at an earlier look counts at all times.
func (r *Row) Widened() bool {
	switch r.Verdict {
	case Helps, Harms, ProvenHelps, ProvenHarms:
		return r.Lo != nil && *r.Lo <= 0 && *r.Hi >= 0
	default:
		return false
	}
}

// note says of a verdict what it does not say itself.
func (r *Row) note(s trial.Stats) string {
	switch r.Verdict {
	case Invalid:
		return why(r)
	case ProvenHelps, ProvenHarms:
		if r.Widened() {
			return "an earlier look proved it, which stays; its interval is wider now that it is withheld less"
		}
	case TrialHelps, TrialHarms:
		return "by one planned look; of such rows one in twenty may be wrong"
	case Helps, Harms:
		if r.Widened() {
			return "one such row in ten may be wrong; its interval has excluded 0, and is wider now that it is withheld less"
		}
		return "one such row in ten may be wrong"
	case LikelyHelps, LikelyHarms:
		return "by the chooser's model, not by the holdout"
	case Benched:
		if r.Trial == running {
			return "the chooser expects harm; its trial goes on"
		}
		return "the chooser expects harm and only probes it"
	case Unproven:
		if r.Lo == nil || *r.Lo <= 0 && *r.Hi >= 0 {
			break
		}
		if !trial.Claimable(s.M1, s.M0) {
			return "the interval excludes 0, but it takes 50 told sessions in each arm to call it so"
		}
		return "the interval excludes 0, but with so many lessons some do by chance"
	case NoEffect: // speaks for itself
	}
	switch {
	case r.Epsilon <= 0:
		return "nothing is withheld: without a holdout no effect can be measured"
	case r.Epsilon >= 1:
		return "everything is withheld: without injections no effect can be measured"
	}
	return ""
}

func why(r *Row) string {
	if !r.SRM.OK {
		return fmt.Sprintf("the coins do not fall as promised (e-value %.3g)", r.SRM.EValue)
	}
	return fmt.Sprintf(
		"having the lesson changes who reports, or how (e-value %.3g)", r.Reporting.EValue,
	)
}

const (
	retireBenchedDays = 60
	retirePicks       = 200
	retireUseful      = 0.01 // one point
	retireChance      = 0.05
)

// retire gives the reason for which an operator may want to retire a lesson. It is a proposal; low
// traffic alone is no reason.
func (b *builder) retire(r *Row, l Lesson, p Belief) string {
	switch {
	case past(l.State) || l.Arm == trial.LoopArm || r.Verdict == Invalid:
		return ""
	case l.Expired:
		return "expired"
	case l.Superseded:
		return "superseded"
	case r.Verdict == TrialHarms:
		return "its trial found that it harms"
	case r.Hi != nil && *r.Hi < retireUseful:
		return "its effect is below 1 point at best"
	case r.Told >= retirePicks && p.Benched && b.benchedSince(l):
		return "benched for 60 days"
	case r.Told > 0 && above(retireUseful, p) < retireChance:
		return "an effect above 1 point is unlikely (under 5%, by the chooser's model)"
	}
	return ""
}

// benchedSince asks, of several days back to 60, whether the chooser already expected harm then.
func (b *builder) benchedSince(l Lesson) bool {
	today := trial.Day(b.in.Now)
	for back := int32(retireBenchedDays); back > 0; back -= 15 {
		if b.in.Chooser.BelievedAt(l, today-back) >= 0 {
			return false
		}
	}
	return true
}

// causal is what an interval alone says.
func causal(lo, hi float64) Verdict {
	switch {
	case lo > 0:
		return Helps
	case hi < 0:
		return Harms
	case lo >= -trial.Material && hi <= trial.Material:
		return NoEffect
	}
	return Unproven
}
