package report

import (
	"fmt"
	"math"
	"slices"
	"time"

	"precept/bandit/trial"
)

// setNeeds sets how many further picks the row needs for a verdict, at the current probability of withholding and at
// Input.WhatIf. untilEvaluation is the number of picks left in a planned trial, or 0.
func (b *builder) setNeeds(r *Row, s trial.Stats, all sums, belief Belief, untilEvaluation int64) {
	sigma2 := rewardVariance(all, s.Strata, b.sigma2)
	r.Epsilon, r.Variance = belief.Epsilon, sigma2
	if r.Epsilon > 0 && r.Epsilon < 1 {
		b.setNeedsPicks(r, all, untilEvaluation)
	}
	if w := b.in.WhatIf; w > 0 && w < 1 {
		r.WhatIf = &WhatIf{
			Epsilon:      w,
			HalfWidth:    trial.HalfWidth(math.Max(all.count, trial.MinPicks), sigma2*trial.VarianceFactor(w), trial.LessonTightestAt),
			Needs3Points: remaining(picksForWidth(trial.MaterialEffect, sigma2*trial.VarianceFactor(w)), all.count),
		}
		if isUndecided(r.Verdict) {
			r.WhatIf.NeedsPicks = b.remainingPicks(all, sigma2, w)
		}
	}
}

// setNeedsPicks sets NeedsPicks (until a verdict), Weeks, and Needs3Points (until the half-width is 3 points,
// trial.MaterialEffect).
func (b *builder) setNeedsPicks(r *Row, all sums, untilEvaluation int64) {
	r.Needs3Points = remaining(picksForWidth(trial.MaterialEffect, r.Variance*trial.VarianceFactor(r.Epsilon)), all.count)
	if isUndecided(r.Verdict) {
		r.NeedsPicks = b.remainingPicks(all, r.Variance, r.Epsilon)
		r.NeedsUnclear = isUnclear(all, func(effect float64) float64 {
			return picksAtVerdict(effect, r.Variance*trial.VarianceFactor(r.Epsilon), trial.MaterialEffect, b.nextClaimBar)
		})
		if untilEvaluation > 0 && untilEvaluation <= r.NeedsPicks {
			r.NeedsPicks, r.NeedsUnclear = untilEvaluation, false
		}
	}
	if rate := r.picksPerWeek(); r.NeedsPicks > 0 && rate > 0 {
		r.Weeks = new(float64(r.NeedsPicks) / rate)
	}
}

// isUndecided reports whether the row has no verdict from withheld sessions yet: only a prediction, or none.
func isUndecided(v Verdict) bool {
	switch v {
	case LikelyHelps, LikelyHarms, Benched, Unproven:
		return true
	default:
		return false
	}
}

// remainingPicks returns how many further picks lead to the verdict "helps", "harms" or "no material effect" if the
// effect stays as it is. For a row without an effect, it returns how many picks the row needs to show an effect.
func (b *builder) remainingPicks(all sums, sigma2, eps float64) int64 {
	if all.hasEnoughPicks() {
		wanted := picksAtVerdict(all.effect(), sigma2*trial.VarianceFactor(eps), trial.MaterialEffect, b.nextClaimBar)
		return max(remaining(wanted, all.count), all.picksUntilArms(trial.MinVerdictPerArm, eps), 1)
	}
	return max(remaining(trial.MinPicks, all.count), all.picksUntilArms(trial.MinPerArm, eps), 1)
}

// maxNeedsRatio is the largest ratio between two plausible numbers of needed picks for which pages show a number.
const maxNeedsRatio = 10

// isUnclear reports whether the number of picks that a verdict needs changes more than maxNeedsRatio times within one
// standard error of the effect. Such a number changes with every few sessions. needed returns the number for an effect.
func isUnclear(s sums, needed func(effect float64) float64) bool {
	if !s.hasEnoughPicks() { // a first effect needs a fixed number of picks
		return false
	}
	e, spread := s.effect(), math.Sqrt(s.variance()/s.count)
	low, middle, high := needed(e-spread), needed(e), needed(e+spread)
	return max(low, middle, high) > maxNeedsRatio*max(s.count, min(low, middle, high))
}

// RoundedNeeds returns the number of further rewarded picks for a verdict, rounded because it is an estimate. The
// result is 0 if the row needs none, or if the number is too unclear to show. The number until the first effect is
// exact.
func (r *Row) RoundedNeeds() int64 {
	switch {
	case r.NeedsUnclear:
		return 0
	case r.Effect == nil || r.Trial == trialRunning:
		return r.NeedsPicks
	}
	return roundEstimate(r.NeedsPicks)
}

// roundEstimate rounds to one significant digit, or to two if the first digit is 1.
func roundEstimate(n int64) int64 {
	unit := int64(1)
	for n/unit >= 20 {
		unit *= 10
	}
	return (n + unit/2) / unit * unit
}

// TooEarly is shown instead of an unclear number of picks.
const TooEarly = "it is too early to estimate how many more picks a verdict needs"

// picksUntilArms returns how many further picks are needed for perArm injected and perArm withheld picks.
func (s sums) picksUntilArms(perArm, eps float64) int64 {
	return int64(math.Ceil(math.Max(0, math.Max((perArm-s.injected)/(1-eps), (perArm-s.withheld)/eps))))
}

func remaining(wanted, have float64) int64 { return int64(math.Ceil(math.Max(0, wanted-have))) }

// maxTimeShare is the largest share of the waiting time that may remain after a suggested change. A change that saves
// less than a quarter of the time is not suggested.
const maxTimeShare = 0.75

// rarePickShare is the share of sessions with a pick below which the report suggests wider triggers.
const rarePickShare = 0.05

// setExpectation sets when the row's verdict is expected, and which changes would lead to a faster verdict.
func (b *builder) setExpectation(r *Row, s trial.Stats) {
	if r.NeedsPicks <= 0 || isPast(r.State) {
		return
	}
	if all := float64(b.global.All.Rewarded); r.Rewarded > 0 && all > 0 {
		slowdown := 1.0
		if rate := r.picksPerWeek(); rate > 0 {
			slowdown = r.PerWeek / rate
		}
		r.NeedsSessions = int64(math.Ceil(float64(r.NeedsPicks) * slowdown * all / float64(r.Rewarded)))
	}
	if r.Weeks != nil && *r.Weeks < maxWeeks {
		r.Expected = b.in.Now.Add(time.Duration(*r.Weeks * 7 * 24 * float64(time.Hour))).UTC().Format(time.DateOnly)
	}
	r.Speedups = b.speedups(r, s)
}

// maxWeeks is ten years. The report shows no date beyond maxWeeks.
const maxWeeks = 520

// speedups returns the changes that would lead to a faster verdict.
func (b *builder) speedups(r *Row, s trial.Stats) (out []string) {
	if r.Trial != trialRunning {
		if part := b.trialTimeShare(r, s); part > 0 {
			text := "a trial"
			if !r.NeedsUnclear {
				text += " would take " + weeksText(*r.Weeks*part)
			}
			out = append(out, text)
		}
	}
	if r.Picked > 0 && float64(r.Rewarded) < maxTimeShare*float64(r.Picked) {
		out = append(out, fmt.Sprintf("more feedback: only %d%% of picks have a reward", 100*r.Rewarded/r.Picked))
	}
	switch all := float64(b.global.All.Rewarded); {
	case r.Matched == 0:
		out = append(out, "other triggers: no closed session has matched this text yet")
	case all > 0 && float64(r.Rewarded) < rarePickShare*all:
		out = append(out, fmt.Sprintf("wider triggers: the lesson is picked in only %.1f%% of rewarded sessions", 100*float64(r.Rewarded)/all))
	default:
		out = append(out, "more traffic")
	}
	return out
}

// trialTimeShare returns how long a trial would take to reach a verdict, as a share of r.Weeks. A trial withholds half
// the picks and picks the lesson at each match. The result is 0 if the share is unknown or above maxTimeShare.
func (b *builder) trialTimeShare(r *Row, s trial.Stats) float64 {
	rate := r.picksPerWeek()
	if r.Matched == 0 || r.Picked == 0 || rate <= 0 {
		return 0
	}
	needs := float64(b.remainingPicks(armSums(s), r.Variance, trial.Epsilon))
	share := needs / float64(r.NeedsPicks) * rate / (r.PerWeek * float64(r.Matched) * (1 - b.in.Policy.Control) / float64(r.Picked))
	if share > maxTimeShare {
		return 0
	}
	return share
}

// picksPerWeek returns the expected number of rewarded picks per week. The chooser may now pick the lesson in fewer
// sessions than in the last weeks.
func (r *Row) picksPerWeek() float64 {
	if r.Picked == 0 {
		return r.PerWeek
	}
	return math.Min(r.PerWeek, r.PickShare*r.PerWeek*float64(r.Matched)/float64(r.Picked))
}

// rarelyChosenShare is the pick share below which a lesson counts as rarely chosen.
const rarelyChosenShare = 0.1

// RarelyChosen says how rarely the chooser now picks a lesson. The result is "" if the lesson is not in use or often
// picked.
func (r *Row) RarelyChosen() string {
	if r.PickShare >= rarelyChosenShare || r.Matched == 0 || !slices.Contains([]string{"active", "caution", "benched"}, r.State) {
		return ""
	}
	return fmt.Sprintf("rarely chosen: currently picked in about %s of matching sessions (%s of %s to date)",
		percentText(r.PickShare), Grouped(r.Picked), Grouped(r.Matched))
}

func percentText(share float64) string {
	if share < 0.01 {
		return "0%"
	}
	return fmt.Sprintf("%.0f%%", 100*share)
}
