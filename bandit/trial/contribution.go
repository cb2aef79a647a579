package trial

import (
	"math"
	"slices"
	"strconv"
)

// Deltas collects what a session adds; all values of one session fit one small slice.
type Deltas []Delta

// Add adds a number to a counter. Nothing is not counted.
func (d *Deltas) Add(scope, field string, day int32, v float64) {
	if f := Fixed(v); f != 0 {
		*d = append(*d, Delta{Key{scope, field, day}, f})
	}
}

// Closing is what a session adds once, when it closes, told or not: how often lessons matched and
// were picked, and how the coins fell. The ratio of the coins is what shows a broken assignment, so
// it must not depend on who was rewarded.
func (a *Assignment) Closing() []Delta {
	if a.Excluded {
		return nil
	}
	var d Deltas
	d.Add("", fClosed, a.Day, 1)
	if a.Enters() {
		d.Add("", ofCoin(fAssigned, !a.Control, a.ControlP), 0, 1)
	}
	if some, p := a.anything(); p > 0 {
		d.Add("", ofAny+ofCoin(fAssigned, some, p), 0, 1)
	}
	a.refusals(&d)
	a.listen(&d)
	for i := range a.Matched {
		d.Add(string(a.Matched[i].Arm), fMatched, 0, 1)
	}
	added := 0
	for i := range a.Picks {
		p := &a.Picks[i]
		if _, inside := a.Match(p.Arm); !inside {
			d.Add(string(p.Arm), fMatched, 0, 1)
		}
		d.Add(string(p.Arm), fPicked, 0, 1)
		d.Add(string(p.Arm), ofCoin(fAssigned, p.Injected, p.Eps), 0, 1)
		if p.Injected {
			d.Add(string(p.Arm), fTokens, 0, float64(p.Tokens))
			added += p.Tokens
		}
	}
	d.Add("", fAdded, a.Day, float64(added))
	return d
}

// listen counts who had told something by the time of the closing. It is read this once, and
// feedback that comes later does not move it: so each session is for ever among the told ones or
// among the untold, and the checks' e-values are what they say.
func (a *Assignment) listen(d *Deltas) {
	if a.First == nil {
		return
	}
	if a.Enters() {
		d.Add("", ofTier(fHeard, !a.Control, a.First.Tier, a.ControlP), 0, 1)
	}
	if some, p := a.anything(); p > 0 {
		d.Add("", ofAny+ofTier(fHeard, some, a.First.Tier, p), 0, 1)
	}
	for i := range a.Picks {
		p := &a.Picks[i]
		d.Add(string(p.Arm), ofTier(fHeard, p.Injected, a.First.Tier, p.Eps), 0, 1)
	}
}

// refusals counts a session whose changed request the upstream refused, by the coin of each of its
// picks. Only a session in which something was injected can be refused, so it keeps its arm and its
// reward: to leave it out would be a bias.
func (a *Assignment) refusals(d *Deltas) {
	if !a.Refused {
		return
	}
	d.Add("", fRefused+bit(!a.Control), 0, 1)
	for i := range a.Picks {
		d.Add(string(a.Picks[i].Arm), fRefused+bit(a.Picks[i].Injected), 0, 1)
	}
}

// Contribution is what a reward y of the given tier adds to the measured counters. It is pure: to
// correct a reward, add Negate of the old contribution and then the new one. An excluded session
// adds nothing, and neither does a reward that is no number.
func (a *Assignment) Contribution(y float64, tier int) []Delta {
	if a.Excluded || math.IsNaN(y) {
		return nil
	}
	y = clip(y, 0, 1)
	d := make(Deltas, 0, 16+32*len(a.Picks)+2*len(a.Matched))
	a.global(&d, y, tier)
	for _, m := range a.Matched {
		if !slices.ContainsFunc(a.Picks, func(p Pick) bool { return p.Arm == m.Arm }) {
			d.Add(string(m.Arm), FieldUnpicked, a.Day, 1)
		}
	}
	for i := range a.Picks {
		a.picked(&d, &a.Picks[i], y, tier)
	}
	return d
}

// global adds the reward to the tenant's own counters.
func (a *Assignment) global(d *Deltas, y float64, tier int) {
	d.Add("", FieldTold, 0, 1)
	d.Add("", fSumY, 0, y)
	if !a.Enters() {
		return
	}
	treated := !a.Control
	n, s := FieldInjected, fS1
	if a.Control {
		n, s = FieldWithheld, fS0
	}
	d.Add("", n, a.Day, 1)
	d.Add("", s, a.Day, y)
	d.Add("", ofTier(FieldTold, treated, tier, a.ControlP), 0, 1)
	if some, p := a.anything(); p > 0 {
		d.Add("", ofAny+ofTier(FieldTold, some, tier, p), 0, 1)
	}
	if z, ok := Z(y-a.C, treated, a.ControlP); ok {
		d.Add("", fN, a.Day, 1)
		d.Add("", fZ, a.Day, z)
		d.Add("", fZZ, a.Day, z*z)
	}
}

// anything says whether any of the first picks was injected, and with which chance none was; 0 when
// there was no coin. Later picks are left out: whether there are any may depend on the first coins.
func (a *Assignment) anything() (some bool, none float64) {
	first := 0 // their turn; a warning of a loop may have come before
	for i := range a.Picks {
		p := &a.Picks[i]
		if _, inside := a.Match(p.Arm); !inside || (none > 0 && p.Turn != first) {
			continue
		}
		first = p.Turn
		if !(p.Eps > 0 && p.Eps < 1) {
			return false, 0
		}
		if none == 0 {
			none = 1
		}
		none *= p.Eps
		some = some || p.Injected
	}
	return some, Round(none)
}

// picked adds a pick: how the sessions with the lesson and without it went, and the randomised
// comparison of both.
func (a *Assignment) picked(d *Deltas, p *Pick, y float64, tier int) {
	arm, r := string(p.Arm), y-p.Off
	if p.Injected {
		d.Add(arm, FieldInjected, a.Day, 1)
		d.Add(arm, fM1, 0, 1)
		d.Add(arm, fY1, 0, y)
		d.Add(arm, fBetter, 0, math.Max(0, r))
		d.Add(arm, fWorse, 0, math.Max(0, -r))
		if y >= 0.5 {
			d.Add(arm, fSuccess, 0, 1)
		} else {
			d.Add(arm, fFailure, 0, 1)
		}
	} else {
		d.Add(arm, FieldWithheld, a.Day, 1)
		d.Add(arm, fM0, 0, 1)
		d.Add(arm, fY0, 0, y)
	}
	d.Add(arm, ofTier(FieldTold, p.Injected, tier, p.Eps), 0, 1)
	d.Add(arm, ofCoin(fRewards, p.Injected, p.Eps), 0, y)
	z, ok := Z(y-p.C, p.Injected, p.Eps)
	if !ok {
		return
	}
	d.Add(arm, fN, a.Day, 1)
	d.Add(arm, fZ, a.Day, z)
	d.Add(arm, fZZ, a.Day, z*z)
	for k := range bets {
		l := lambda(k, p.Eps) * z
		d.Add(arm, wUp+strconv.Itoa(k+1), 0, math.Log1p(l))
		d.Add(arm, wDown+strconv.Itoa(k+1), 0, math.Log1p(-l))
	}
}

// Z weighs a centred reward by the chance of its arm (inverse probability, Horvitz and Thompson
// 1952), so that its mean is the effect of being injected whatever the centre. Without a coin there
// is no comparison: ok is false.
func Z(r float64, injected bool, eps float64) (z float64, ok bool) {
	if !(eps > 0 && eps < 1) {
		return 0, false
	}
	if injected {
		return r / (1 - eps), true
	}
	return -r / eps, true
}

// Spread is by how much the coin inflates the variance of a reward in that of z.
func Spread(eps float64) float64 { return 1/(1-eps) + 1/eps }
