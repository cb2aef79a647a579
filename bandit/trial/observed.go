package trial

import (
	"math"
	"strconv"
)

// outcomeBetCount is the number of bet sizes (assumed effects, in multiples of Measurement.Width) on an outcome. The
// bets are larger than on a reward, because effects on outcomes are larger. They are fewer, because a session has seven
// outcomes.
const outcomeBetCount = 4

func outcomeBetSize(k int, eps float64) float64 {
	return min([outcomeBetCount]float64{0.03, 0.08, 0.18, 0.4}[k], 0.9*min(eps, 1-eps))
}

// Sum indices for one outcome.
const (
	oN1             = iota                  // closed randomised picks, injected
	oN0                                     // closed randomised picks, withheld
	oY1                                     // summed values, injected
	oY0                                     // summed values, withheld
	oZ                                      // sum of z
	oZZ                                     // sum of z squared
	oUp                                     // sum of ln(1 + lambda_k u), where u is z scaled by Measurement.Width and capped
	oDown           = oUp + outcomeBetCount // sum of ln(1 - lambda_k u)
	outcomeSumCount = oDown + outcomeBetCount
)

var outcomeFields = newOutcomeFields() //nolint:gochecknoglobals // an immutable table, written once here

// newOutcomeFields returns names such as "errors.n1".
func newOutcomeFields() (out [OutcomeCount][outcomeSumCount]string) {
	for o := range OutcomeCount {
		sums := &out[o]
		for i, name := range []string{"n1", "n0", "y1", "y0", "z", "zz"} {
			sums[i] = o.String() + "." + name
		}
		for k := range outcomeBetCount {
			sums[oUp+k], sums[oDown+k] = o.String()+"."+fBetUp+strconv.Itoa(k+1), o.String()+"."+fBetDown+strconv.Itoa(k+1)
		}
	}
	return out
}

// addOutcomes adds the outcomes when the session closes, with or without a reward.
func (a *Assignment) addOutcomes(d *Deltas) {
	for i := range a.Picks {
		p := &a.Picks[i]
		p.countClosedSurrogate(d)
		for o := range OutcomeCount {
			if y, ok := p.Measurement.Value(o); ok {
				p.addOutcome(d, o, y)
			}
		}
	}
}

// addOutcome adds an outcome's counts and sums, and the terms for two e-values: for a fall and for a rise.
func (p *Pick) addOutcome(d *Deltas, o Outcome, y float64) {
	z, ok := Z(y-p.Measurement.Centres[o], p.Injected, p.Eps)
	if !ok {
		return
	}
	names, arm := &outcomeFields[o], string(p.Arm)
	n, sum := oN0, oY0
	if p.Injected {
		n, sum = oN1, oY1
	}
	d.Add(arm, names[n], 0, 1)
	d.Add(arm, names[sum], 0, y)
	d.Add(arm, names[oZ], 0, z)
	d.Add(arm, names[oZZ], 0, z*z)
	width := p.Measurement.Width[o]
	if !(width > 0) {
		return
	}
	// The cap is symmetric around a centre fixed before the random decision, so the mean u stays 0 if the lesson
	// changes nothing.
	u, _ := Z(clip((y-p.Measurement.Centres[o])/width, -1, 1), p.Injected, p.Eps)
	for k := range outcomeBetCount {
		bet := outcomeBetSize(k, p.Eps) * u
		d.Add(arm, names[oUp+k], 0, math.Log1p(bet))
		d.Add(arm, names[oDown+k], 0, math.Log1p(-bet))
	}
}

// OutcomeStats describes one of an arm's outcomes for the report.
type OutcomeStats struct {
	N1, N0              float64 // closed randomised picks: injected, withheld
	Y1, Y0              float64 // summed values
	Z, ZZ               float64
	LogEMore, LogEFewer float64 // logarithms of the current e-values for larger and for smaller values with the lesson
}

// Outcomes returns an arm's outcomes, all zero for an unknown arm.
func (c *Counters) Outcomes(k Arm) (out [OutcomeCount]OutcomeStats) {
	s := c.scopeSums(string(k), false)
	if k == "" || s == nil {
		return out
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var r Row
	for it := s.rows; it.Next(&r) && r.Group <= rowOutcomes; {
		if r.Group == rowOutcomes {
			out[r.At] = outcomeStats(r.Values[:outcomeSumCount])
		}
	}
	return out
}

func outcomeStats(v []int64) OutcomeStats {
	pos := func(i int) float64 { return math.Max(0, fromFixed(v[i])) }
	return OutcomeStats{
		N1: pos(oN1), N0: pos(oN0), Y1: pos(oY1), Y0: pos(oY0), Z: fromFixed(v[oZ]), ZZ: pos(oZZ),
		LogEMore: logE(v[oUp:oDown]), LogEFewer: logE(v[oDown:]),
	}
}

// pseudoPicks is the weight, in picks, of the mean over all lessons in an arm's centre. A centre is a value expected
// before the random decision.
const pseudoPicks = 10

// startMean returns the assumed mean for an outcome. A wrong mean makes an interval wider, not wrong.
func startMean(o Outcome) float64 {
	switch o {
	case Recurrence:
		return 0.5
	case Tokens:
		return 0.6 // about 20,000 tokens
	case Seconds:
		return 0.25 // a minute
	default:
		return 0.1
	}
}

// capDeviations is the distance from the centre, in standard deviations, at which a bet is capped.
const capDeviations = 3

// NewMeasurement returns the measurement for a pick that is withheld with probability eps. The centres are eps
// mean(injected) + (1-eps) mean(withheld) over the arm's closed picks. An outcome that needs a scale has e-values only
// after 50 closed picks.
func (c *Counters) NewMeasurement(k Arm, eps float64, outcomes OutcomeSet, from Totals) Measurement {
	w := Measurement{Outcomes: outcomes, From: from, Weight: c.weight()}
	all, own := c.pooled(), c.Outcomes(k)
	for o := range OutcomeCount {
		if !outcomes.Has(o) {
			continue
		}
		s := &own[o]
		start := (all[o].sum + startMean(o)) / (all[o].n + 1)
		with, without := (s.Y1+pseudoPicks*start)/(s.N1+pseudoPicks), (s.Y0+pseudoPicks*start)/(s.N0+pseudoPicks)
		w.Centres[o] = Round(clip(eps*with+(1-eps)*without, 0, 1))
		switch n := s.N1 + s.N0; {
		case !o.needsScale():
			w.Width[o] = 1
		case n >= MinPicks && eps > 0 && eps < 1:
			_, v := Moments(n, s.Z, s.ZZ)
			w.Width[o] = Round(min(1, capDeviations*math.Sqrt(v/VarianceFactor(eps))))
		}
	}
	return w
}

type pool struct{ n, sum float64 }

func (c *Counters) pooled() (out [OutcomeCount]pool) {
	c.poolMu.Lock()
	defer c.poolMu.Unlock()
	for o := range OutcomeCount {
		v := &c.pool[o]
		out[o] = pool{math.Max(0, fromFixed(v[oN1]+v[oN0])), math.Max(0, fromFixed(v[oY1]+v[oY0]))}
	}
	return out
}

// poolSumCount is the number of outcome sums in Counters.pool, which has the sums before oZ.
const poolSumCount = oZ
