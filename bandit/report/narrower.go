package report

import (
	"fmt"
	"math"
	"strings"

	"precept/bandit/trial"
)

// explainedShare returns the share of z's variance that the centres (rewards expected before the random assignment)
// remove. It compares them with a constant centre in each stratum (the sessions with one probability of withholding).
func explainedShare(all sums, strata []trial.Stratum) *float64 {
	if !all.hasEnoughPicks() {
		return nil
	}
	var n, z, zz float64 // for z around a constant
	for _, s := range strata {
		n0, n1 := s.GradedN[0], s.GradedN[1]
		if !(s.Eps > 0 && s.Eps < 1) || n0+n1 == 0 {
			continue
		}
		centre := s.Eps*s.GradedY[1]/math.Max(n1, 1) + (1-s.Eps)*s.GradedY[0]/math.Max(n0, 1)
		around := func(arm int, count float64) (sum, squares float64) {
			y := s.GradedY[arm]
			return y - count*centre, y - s.Graded[arm] - 2*centre*y + count*centre*centre
		}
		r1, q1 := around(1, n1)
		r0, q0 := around(0, n0)
		n, z = n+n0+n1, z+r1/(1-s.Eps)-r0/s.Eps
		zz += q1/((1-s.Eps)*(1-s.Eps)) + q0/(s.Eps*s.Eps)
	}
	if n < trial.MinPicks {
		return nil
	}
	_, constant := trial.Moments(n, z, zz)
	return new(1 - all.variance()/constant)
}

// savedPicks returns how many more than n picks an interval of the same width would need without the centres.
func savedPicks(share *float64, n float64) int64 {
	if share == nil || *share <= 0 || *share >= 1 {
		return 0
	}
	return int64(math.Round(n * *share / (1 - *share)))
}

// AllSessions is the effect on the reward, estimated from all closed sessions. In unrewarded sessions, the estimate
// uses the outcomes instead of a reward. No verdict uses the estimate.
type AllSessions struct {
	Sessions  int64    `json:"sessions"` // closed picks
	Rewarded  int64    `json:"rewarded"` // closed picks with a reward
	Effect    *float64 `json:"effect"`   // null below 50 rewarded picks, 5 in each arm, and if off is set
	Lo        *float64 `json:"lo"`       // 95% interval, valid at any time
	Hi        *float64 `json:"hi"`
	Gain      float64  `json:"gain"`          // share of the effect's variance that the estimate saves
	OffReason string   `json:"off,omitempty"` // why there is no estimate
}

// maxDissimilarity is the largest difference between rewarded and other sessions, in standard errors, with which the
// estimate is shown.
const maxDissimilarity = 1.96

// estimateAllSessions returns the estimate, or nil while no outcome predicts rewards or every closed pick has a reward.
func (r *Row) estimateAllSessions(s *trial.SurrogateStats, rewarded sums) *AllSessions {
	if s.GG <= 0 || s.N1+s.N0 <= s.M1+s.M0 {
		return nil
	}
	a := &AllSessions{Sessions: int64(s.N1 + s.N0), Rewarded: int64(s.M1 + s.M0)}
	switch {
	case !r.SRM.OK || !r.Reporting.OK || !r.LateReporting.OK:
		a.OffReason = "the lesson changes which sessions have a reward, or the random assignment is broken"
		return a
	case math.Abs(s.Dissimilarity()) > maxDissimilarity:
		a.OffReason = "the lesson changes the outcomes differently in sessions with and without a reward"
		return a
	case !trial.EnoughForInterval(s.M1+s.M0, s.M1, s.M0):
		return a
	}
	e, v := s.Effect()
	h := trial.HalfWidth(s.M1+s.M0, v, trial.LessonTightestAt)
	a.Effect, a.Lo, a.Hi = new(e), new(e-h), new(e+h)
	if rewardedVariance := rewarded.variance() / rewarded.count; rewarded.count > 0 && rewardedVariance > 0 {
		a.Gain = 1 - v/(s.M1+s.M0)/rewardedVariance
	}
	return a
}

// Sentence describes the estimate in one line.
func (a *AllSessions) Sentence() string {
	s := fmt.Sprintf("%d closed picks, %d rewarded", a.Sessions, a.Rewarded)
	switch {
	case a.OffReason != "":
		return s + "; no estimate: " + a.OffReason
	case a.Effect == nil:
		return s + "; no effect yet"
	}
	if less := math.Round(100 * a.Gain); less > 0 {
		s += fmt.Sprintf("; %.0f%% less variance", less)
	}
	return fmt.Sprintf("%s points, estimated from the outcomes in unrewarded sessions as well (%s); no verdict uses this estimate",
		signedInterval(Points(*a.Effect), Points(*a.Lo), Points(*a.Hi)), s)
}

func (r *Row) centresText() string {
	if r.PicksSaved == 0 {
		return "facts known before the random assignment explain none of the variance"
	}
	return fmt.Sprintf("facts known before the random assignment explain %.1f%% of the variance and save %d picks", 100**r.ExplainedShare, r.PicksSaved)
}

// Sources describes the data behind the effect in sentences.
func (r *Row) Sources() (out []string) {
	if r.ExplainedShare != nil {
		out = append(out, strings.ToUpper(r.centresText()[:1])+r.centresText()[1:]+".")
	}
	if r.Late > 0 {
		out = append(out, fmt.Sprintf("%d of %d rewards arrived after the session had closed.", r.Late, r.Rewarded))
	}
	if r.AllSessions != nil {
		out = append(out, "All sessions: "+r.AllSessions.Sentence()+".")
	}
	return out
}
