package trial

import "math"

// Stats is what the report reads of one scope: whole numbers of sessions, sums, and the coins by
// propensity. It holds nothing of the chooser but its buckets' counts.
type Stats struct {
	N, Z, ZZ         float64     // randomised sessions with a reward: count, sum of z, sum of z squared
	M1, Y1, M0, Y0   float64     // told sessions and the sum of their rewards: injected (treated), withheld (control)
	Matched, Picked  int64       // closed sessions, told or not
	Tokens           int64       // injected, all sessions together
	Success, Failure int64       // told injected sessions with a reward of at least .5, and below
	Spent            [2]Spending // withheld, injected
	Refused          [2]int64    // closed sessions of which the upstream refused the changed request: withheld, injected
	Better, Worse    float64     // sums of what their rewards were above and below the expected
	Told             int64       // global: all sessions with a reward, matched or not
	SumY             float64     // global: their rewards
	LogUp, LogDown   float64     // running maxima of the e-values, as logarithms
	ProvenAt         int64       // unix seconds; 0: not
	OutUp, OutDown   float64     // the smallest p at which its interval ever lay above and below 0, as logarithms of 1/p
	IdleAt           int64       // when its interval first lay within what matters; 0: never
	Recent           float64     // told picks per day over the last four weeks
	Strata           []Stratum
	Any              []Stratum  // global: was anything injected of what was picked, by the chance that nothing was
	Days             []DayStats // oldest first
}

// Stratum is the coins that were flipped with one propensity.
type Stratum struct {
	Eps      float64
	Assigned [2]int64        // closed sessions: withheld, injected
	Told     [2][tiers]int64 // of them with a reward, by tier; 0 holds unknown tiers
	Heard    [2][tiers]int64 // of them with a reward when they closed, by the tier of then
	Y        [2]float64      // sums of rewards
}

// DayStats is one day's part of the randomised comparison, for an effect over time.
type DayStats struct {
	Day      int32
	N, Z, ZZ float64
	N1, N0   float64 // told sessions injected (treated), withheld (control)
	S1, S0   float64 // global only: sums of rewards

	Added int64       // global only: tokens that lessons added
	Spent [2]Spending // global only: control, treated
}

// ToldOn sums a stratum's rewarded sessions of one arm.
func (s Stratum) ToldOn(injected int) (n int64) {
	for _, k := range s.Told[injected] {
		n += k
	}
	return n
}

// HeardOn sums a stratum's sessions of one arm that were rewarded when they closed.
func (s Stratum) HeardOn(injected int) (n int64) {
	for _, k := range s.Heard[injected] {
		n += k
	}
	return n
}

// Stats reads one arm; all zero for one that was never counted.
func (c *Counters) Stats(k Arm) Stats {
	s := c.scope(string(k), false)
	if k == "" || s == nil {
		return Stats{}
	}
	return s.stats(c.today())
}

// Global reads the comparison of treated sessions with control ones.
func (c *Counters) Global() Stats { return c.global.stats(c.today()) }

func (c *Counters) today() int32 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.day
}

// stats copies a scope out. Counts below zero (an undoing that came before its doing) read as zero.
func (s *sums) stats(day int32) Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	pos := func(i int) float64 { return math.Max(0, real64(s.overall[i])) }
	n := func(i int) int64 { return max(0, whole(s.overall[i])) }
	most := func(i int) float64 { return math.Max(0, real64(s.maxima[i])) }
	out := Stats{
		N: math.Max(0, real64(s.total[iN])), Z: real64(s.total[iZ]),
		ZZ: math.Max(0, real64(s.total[iZZ])),
		M1: pos(iM1), Y1: pos(iY1), M0: pos(iM0), Y0: pos(iY0), Matched: n(iMatched),
		Picked: n(iPicked), Tokens: n(iTokens),
		Success: n(iSuccess), Failure: n(iFailure), Better: pos(iBetter), Worse: pos(iWorse),
		Told: n(iTold), SumY: pos(iSumY),
		LogUp: most(iEmaxUp), LogDown: most(iEmaxDown), ProvenAt: s.maxima[iProvenAt],
		OutUp: most(iOutUp), OutDown: most(iOutDown), IdleAt: s.maxima[iIdleAt],
	}
	out.Spent, out.Refused = [2]Spending{spending(s.overall[iSpent : iSpent+3]), spending(s.overall[iSpent+3 : iRefused])}, [2]int64{n(iRefused), n(iRefused + 1)}
	out.Strata, out.Any = strata(s.strata), strata(s.any)
	for _, b := range s.days {
		v := b.V
		d := DayStats{
			Day: b.Key, N: real64(v[iN]), Z: real64(v[iZ]), ZZ: real64(v[iZZ]),
			N1: real64(v[iN1]), N0: real64(v[iN0]), S1: real64(v[iS1]), S0: real64(v[iS0]),
		}
		if cost := s.outlays.find(b.Key); cost != nil { // a session that costs has closed, which its day counts, too
			d.Added = max(0, whole(cost[iAdded]))
			d.Spent = [2]Spending{spending(cost[iBilled : iBilled+3]), spending(cost[iBilled+3:])}
		}
		out.Days = append(out.Days, d)
		if int64(b.Key) > int64(day)-rateWindow {
			out.Recent += math.Max(0, real64(v[iN1]+v[iN0])) / rateWindow
		}
	}
	if k := len(s.days); k > 0 && day != math.MinInt32 {
		if span := float64(day) - float64(s.days[0].Key) + 1; span > 0 && span < rateWindow {
			out.Recent *= rateWindow / span
		}
	}
	return out
}

func strata(of Rows[int64, [coinSums]int64]) (out []Stratum) {
	for _, x := range of {
		t := Stratum{Eps: real64(x.Key)}
		for arm := range 2 {
			t.Assigned[arm] = max(0, whole(x.V[iAssigned+arm]))
			for tier := range tiers {
				t.Told[arm][tier] = max(0, whole(x.V[iToldBy+tiers*arm+tier]))
				t.Heard[arm][tier] = max(0, whole(x.V[iHeardBy+tiers*arm+tier]))
			}
			t.Y[arm] = math.Max(0, real64(x.V[iRewards+arm]))
		}
		out = append(out, t)
	}
	return out
}

// rateWindow is over how many days a rate is taken.
const rateWindow = 28
