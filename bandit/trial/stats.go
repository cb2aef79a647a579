package trial

import (
	"cmp"
	"math"
	"slices"
)

// Stats is the report's input for one arm, or for all lessons together.
type Stats struct {
	N, Z, ZZ        float64 // randomised sessions with a reward: count, z summed, z squared summed
	Rewards         RewardSums
	Maxima          EvidenceMaxima
	All             AllSessions // zero for one arm
	Matched, Picked int64       // closed sessions, rewarded or not
	Tokens          int64       // injected in all sessions
	Spent           [2]Spending // withheld, injected
	Refused         [2]int64    // closed sessions with a refused request: withheld, injected
	RecentPerDay    float64     // rewarded picks per day over the last four weeks
	Strata          []Stratum
	Days            []DayStats // oldest first
}

// RewardSums are counts and sums of rewarded sessions.
type RewardSums struct {
	M1, Y1, M0, Y0   float64 // rewarded sessions and summed rewards: injected (treated), withheld (control)
	Success, Failure int64   // injected sessions with a reward >= .5, and below
	Better, Worse    float64 // sums of the rewards above and below the expectation
}

// EvidenceMaxima holds the extremes in the evidence so far.
type EvidenceMaxima struct {
	LogEHelps, LogEHarms float64 // largest e-values so far, as logarithms
	MaxAbove, MaxBelow   float64 // ln(1/p) for the smallest p with the interval above 0, and below 0
	ProvenAt             int64   // unix seconds; 0 means not proven
	NoEffectAt           int64   // unix seconds of the first interval within 3 points of 0; 0 means never
}

// AllSessions counts all of a tenant's sessions.
type AllSessions struct {
	Rewarded      int64                   // sessions with a reward
	SumY          float64                 // summed rewards
	MeasuredRules int64                   // closed sessions with a match and a measured rules file section
	Closed        int64                   // closed sessions in the experiment
	Members       int64                   // closed sessions that are counted with their run or parent session
	Excluded      [exclusionReasons]int64 // closed sessions outside the experiment, by ExclusionReasons
	AnyInjected   []Stratum               // sessions grouped by whether any pick in the first decision was injected; Eps is the probability that none was
}

// Stratum holds counts and sums for the sessions that share one withholding probability.
type Stratum struct {
	Eps             float64         // the probability
	Assigned        [2]int64        // closed sessions: withheld, injected
	Rewarded        [2][tiers]int64 // rewarded sessions by tier; index 0 holds unknown tiers
	RewardedAtClose [2][tiers]int64 // sessions with a reward at close, by the tier at that time
	Y               [2]float64      // summed rewards
	GradedN         [2]float64      // rewarded sessions from releases that count Graded
	GradedY         [2]float64      // sum of their rewards y
	Graded          [2]float64      // sum of their y (1 - y); the sum of y squared is GradedY - Graded
	Late            [2]int64        // sessions that had no reward at close but have one now
}

// DayStats is one day in the randomised comparison.
type DayStats struct {
	Day      int32
	N, Z, ZZ float64
	N1, N0   float64 // rewarded sessions: injected (treated), withheld (control)
	S1, S0   float64 // global only: summed rewards

	Added int64       // global only: tokens injected
	Spent [2]Spending // global only: control, treated
}

// RewardedInArm returns the number of rewarded sessions in arm 0 (withheld) or 1 (injected).
func (s Stratum) RewardedInArm(injected int) (n int64) {
	for _, k := range s.Rewarded[injected] {
		n += k
	}
	return n
}

// RewardedAtCloseInArm returns how many sessions in arm 0 (withheld) or 1 (injected) had a reward at close.
func (s Stratum) RewardedAtCloseInArm(injected int) (n int64) {
	for _, k := range s.RewardedAtClose[injected] {
		n += k
	}
	return n
}

// Stats returns one arm's counters, or zeros for an unknown arm.
func (c *Counters) Stats(k Arm) Stats {
	s := c.scopeSums(string(k), false)
	if k == "" || s == nil {
		return Stats{}
	}
	return s.stats(c.today())
}

// Global returns the comparison between treated and control sessions.
func (c *Counters) Global() Stats { return c.global.stats(c.today()) }

func (c *Counters) today() int32 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.day
}

// stats returns the scope's counters. A negative count reads as 0, because a correction may arrive before the reward
// that it corrects.
func (s *sums) stats(day int32) Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	maxima, total, overall := s.row(rowMaxima), s.row(rowTotal), s.row(rowOverall)
	pos := func(i int) float64 { return math.Max(0, fromFixed(overall[i])) }
	n := func(i int) int64 { return max(0, intFromFixed(overall[i])) }
	largest := func(i int) float64 { return math.Max(0, fromFixed(maxima[i])) }
	out := Stats{
		N: math.Max(0, fromFixed(total[iN])), Z: fromFixed(total[iZ]), ZZ: math.Max(0, fromFixed(total[iZZ])),
		Rewards: RewardSums{
			M1: pos(iM1), Y1: pos(iY1), M0: pos(iM0), Y0: pos(iY0),
			Success: n(iSuccess), Failure: n(iFailure), Better: pos(iBetter), Worse: pos(iWorse),
		},
		Maxima: EvidenceMaxima{
			LogEHelps: largest(iEmaxUp), LogEHarms: largest(iEmaxDown), MaxAbove: largest(iMaxAbove), MaxBelow: largest(iMaxBelow),
			ProvenAt: maxima[iProvenAt], NoEffectAt: maxima[iNoEffectAt],
		},
		All:     AllSessions{Rewarded: n(iRewarded), SumY: pos(iSumY), MeasuredRules: n(iMeasuredRules)},
		Matched: n(iMatched), Picked: n(iPicked), Tokens: n(iTokens),
	}
	out.Spent, out.Refused = [2]Spending{spending(overall[iSpent : iSpent+3]), spending(overall[iSpent+3 : iRefused])}, [2]int64{n(iRefused), n(iRefused + 1)}
	out.All.Closed, out.All.Members = max(0, intFromFixed(total[iClosed])), n(iMembers)
	for i := range out.All.Excluded {
		out.All.Excluded[i] = n(iExcluded + i)
	}
	s.addRows(&out)
	for _, d := range out.Days {
		if int64(d.Day) > int64(day)-rateWindowDays {
			out.RecentPerDay += math.Max(0, d.N1+d.N0) / rateWindowDays
		}
	}
	if len(out.Days) > 0 && day != math.MinInt32 {
		if span := float64(day) - float64(out.Days[0].Day) + 1; span > 0 && span < rateWindowDays {
			out.RecentPerDay *= rateWindowDays / span
		}
	}
	return out
}

// The caller holds mu.
func (s *sums) addRows(out *Stats) {
	var r Row
	for it := s.rows; it.Next(&r); {
		v := &r.Values
		switch r.Group {
		case rowStrata:
			out.Strata = append(out.Strata, stratum(&r))
		case rowAnyPick:
			out.All.AnyInjected = append(out.All.AnyInjected, stratum(&r))
		case rowDays:
			out.Days = append(out.Days, DayStats{
				Day: int32(r.At), N: fromFixed(v[iN]), Z: fromFixed(v[iZ]), ZZ: fromFixed(v[iZZ]), //nolint:gosec // a day number fits in an int32
				N1: fromFixed(v[iN1]), N0: fromFixed(v[iN0]), S1: fromFixed(v[iS1]), S0: fromFixed(v[iS0]),
			})
		case rowCosts: // a session with a cost is closed, so its day is in Days
			i, found := slices.BinarySearchFunc(out.Days, r.At, func(d DayStats, at int64) int { return cmp.Compare(int64(d.Day), at) })
			if found {
				out.Days[i].Added = max(0, intFromFixed(v[iAdded]))
				out.Days[i].Spent = [2]Spending{spending(v[iBilled : iBilled+3]), spending(v[iBilled+3 : costCount])}
			}
		}
	}
}

func stratum(x *Row) Stratum {
	t := Stratum{Eps: fromFixed(x.At)}
	for arm := range 2 {
		t.Assigned[arm] = max(0, intFromFixed(x.Values[iAssigned+arm]))
		for tier := range tiers {
			t.Rewarded[arm][tier] = max(0, intFromFixed(x.Values[iRewardedBy+tiers*arm+tier]))
			t.RewardedAtClose[arm][tier] = max(0, intFromFixed(x.Values[iAtCloseBy+tiers*arm+tier]))
		}
		t.Graded[arm] = math.Max(0, fromFixed(x.Values[iGraded+arm]))
		t.GradedN[arm], t.GradedY[arm] = math.Max(0, fromFixed(x.Values[iGradedN+arm])), math.Max(0, fromFixed(x.Values[iGradedY+arm]))
		t.Late[arm] = max(0, intFromFixed(x.Values[iLate+arm]))
		t.Y[arm] = math.Max(0, fromFixed(x.Values[iRewards+arm]))
	}
	return t
}

const rateWindowDays = 28 // days over which rates are computed
