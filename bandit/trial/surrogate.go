package trial

import "math"

// The surrogate s for a reward y measures the absence of trouble after the pick: 1 minus errors, loops and corrections,
// but at least 0. Every closed session has a surrogate. With z as in Z, the estimate over all sessions is
//
//	mean over rewarded picks of (z(y) - l z(s)) + mean over all picks of l z(s)
//
// (Angelopoulos, Bates, Fannjiang, Jordan and Zrnic, Prediction-powered inference, 2023). The weight l is computed from
// earlier sessions and frozen at the pick. Both means divide by the number of counted sessions. If they divided by a
// rewarded share that was frozen at the pick, a change in that share would look like an effect.

// Surrogate sum indices. Each comment names the picks that are counted, or the term that is summed: g = l z(s) and d =
// z(y) - g.
const (
	uN1  = iota // closed randomised picks with a surrogate, injected
	uN0         // closed randomised picks with a surrogate, withheld
	uG          // closed picks: g
	uGG         // closed picks: g squared
	uM1         // rewarded randomised picks with a surrogate, injected
	uM0         // rewarded randomised picks with a surrogate, withheld
	uD          // rewarded picks: d
	uDD         // rewarded picks: d squared
	uDG         // rewarded picks: d g
	uGR         // rewarded picks: g
	uGGR        // rewarded picks: g squared
	uYZ         // rewarded picks: z(y) z(s)
	uZZ         // rewarded picks: z(s) squared
	surrogateSumCount
)

//nolint:gochecknoglobals // an immutable list
var surrogateFields = [surrogateSumCount]string{
	"all.n1", "all.n0", "all.g", "all.gg", "all.m1", "all.m0", "all.d", "all.dd", "all.dg", "all.gr", "all.ggr", "all.yz", "all.zz",
}

// surrogate returns the surrogate's z; ok is false if the pick was not randomised or has no surrogate.
func (p *Pick) surrogate() (z float64, ok bool) {
	var failures, centre float64
	for _, o := range [...]Outcome{Errors, Loops, Corrections} {
		if y, measured := p.Measurement.Value(o); measured {
			failures, centre, ok = failures+y, centre+p.Measurement.Centres[o], true
		}
	}
	if !ok {
		return 0, false
	}
	return Z(min(centre, 1)-min(failures, 1), p.Injected, p.Eps)
}

// countSurrogate counts a pick with a surrogate, and returns the surrogate's z and g.
func (p *Pick) countSurrogate(d *Deltas, injectedField, withheldField int) (zs, g float64, ok bool) {
	if zs, ok = p.surrogate(); !ok {
		return 0, 0, false
	}
	count := withheldField
	if p.Injected {
		count = injectedField
	}
	d.Add(string(p.Arm), surrogateFields[count], 0, 1)
	return zs, p.Measurement.Weight * zs, true
}

func (p *Pick) countClosedSurrogate(d *Deltas) {
	if _, g, ok := p.countSurrogate(d, uN1, uN0); ok {
		d.Add(string(p.Arm), surrogateFields[uG], 0, g)
		d.Add(string(p.Arm), surrogateFields[uGG], 0, g*g)
	}
}

// countRewardedSurrogate adds d = z(y) - g, g, and the products to the sums.
func (p *Pick) countRewardedSurrogate(d *Deltas, zy float64) {
	zs, g, ok := p.countSurrogate(d, uM1, uM0)
	if !ok {
		return
	}
	residual := zy - g
	for i, v := range [...]float64{residual, residual * residual, residual * g, g, g * g, zy * zs, zs * zs} {
		d.Add(string(p.Arm), surrogateFields[uD+i], 0, v)
	}
}

const minSurrogatePicks = 100 // rewarded picks before the estimate uses surrogates

// weight returns the weight l in the formula above, between 0 and 1: Cov(z(y), z(s)) / Var(z(s)) over all lessons'
// rewarded picks.
func (c *Counters) weight() float64 {
	c.poolMu.Lock()
	defer c.poolMu.Unlock()
	v := &c.surrogates
	if v[uM1]+v[uM0] < minSurrogatePicks*FixedScale || v[uZZ] <= 0 {
		return 0
	}
	return Round(clip(fromFixed(v[uYZ])/fromFixed(v[uZZ]), 0, 1))
}

// SurrogateStats holds one arm's sums for the estimate over all sessions, which uses the formula above.
type SurrogateStats struct {
	N1, N0    float64 // closed picks: injected, withheld
	M1, M0    float64 // rewarded picks: injected, withheld
	G, GG     float64 // sums over closed picks: g = l z(s), and g squared
	GR, GGR   float64 // sums over rewarded picks: g and g squared
	D, DD, DG float64 // sums over rewarded picks: d = z(y) - g, d squared, and d g
}

// Surrogate returns an arm's surrogate sums, or zeros for an unknown arm.
func (c *Counters) Surrogate(k Arm) (out SurrogateStats) {
	s := c.scopeSums(string(k), false)
	if k == "" || s == nil {
		return out
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	row := s.row(rowSurrogate)
	v := func(i int) float64 { return fromFixed(row[i]) }
	return SurrogateStats{
		N1: v(uN1), N0: v(uN0), M1: v(uM1), M0: v(uM0), G: v(uG), GG: v(uGG), GR: v(uGR), GGR: v(uGGR), D: v(uD), DD: v(uDD), DG: v(uDG),
	}
}

// Effect returns the estimate over all sessions, and the variance times the number of rewarded picks. The variance is
// the influence function's, so the rewarded share need not be known in advance.
func (s *SurrogateStats) Effect() (effect, variance float64) {
	n, m := s.N1+s.N0, s.M1+s.M0
	share := m / n
	d, g := s.D/m, s.G/n
	sum := (s.DD-m*d*d)/(share*share) + s.GG - n*g*g + 2*(s.DG-d*s.GR)/share
	return d + g, max(sum/n*share, minVariance)
}

// Dissimilarity returns by how many standard errors the mean g differs between rewarded and other picks. If the
// difference is large, unrewarded sessions carry no information about rewarded sessions.
func (s *SurrogateStats) Dissimilarity() float64 {
	n, m := s.N1+s.N0, s.M1+s.M0
	rest := n - m
	if m < MinPicks || rest < MinPicks {
		return 0
	}
	a, va := Moments(m, s.GR, s.GGR)
	b, vb := Moments(rest, s.G-s.GR, s.GG-s.GGR)
	return (a - b) / math.Sqrt(va/m+vb/rest)
}
