package bandit

import (
	"math"
	"strconv"
)

// deltas collects; all values of one session fit one small slice.
type deltas []Delta

func (d *deltas) add(scope, field string, day int32, v float64) {
	if f := fixed(v); f != 0 {
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
	var d deltas
	d.add("", fClosed, a.Day, 1)
	if a.enters() {
		d.add("", assigned(!a.Control, a.ControlP), 0, 1)
	}
	if some, p := a.anything(); p > 0 {
		d.add("", ofAny+assigned(some, p), 0, 1)
	}
	a.refusals(&d)
	a.listen(&d)
	for i := range a.Matched {
		d.add(string(a.Matched[i].Arm), fMatched, 0, 1)
	}
	for i := range a.Picks {
		p := &a.Picks[i]
		if _, inside := a.del(p.Arm); !inside {
			d.add(string(p.Arm), fMatched, 0, 1)
		}
		d.add(string(p.Arm), fPicked, 0, 1)
		d.add(string(p.Arm), assigned(p.Injected, p.Eps), 0, 1)
		if p.Injected {
			d.add(string(p.Arm), fTokens, 0, float64(p.Tokens))
		}
	}
	return d
}

// listen counts who had told something by the time of the closing. It is read this once, and
// feedback that comes later does not move it: so each session is for ever among the told ones or
// among the untold, and the checks' e-values are what they say.
func (a *Assignment) listen(d *deltas) {
	if a.First == nil {
		return
	}
	if a.enters() {
		d.add("", heard(!a.Control, a.First.Tier, a.ControlP), 0, 1)
	}
	if some, p := a.anything(); p > 0 {
		d.add("", ofAny+heard(some, a.First.Tier, p), 0, 1)
	}
	for i := range a.Picks {
		p := &a.Picks[i]
		d.add(string(p.Arm), heard(p.Injected, a.First.Tier, p.Eps), 0, 1)
	}
}

// refusals counts a session whose changed request the upstream refused, by the coin of each of its
// picks. Only a session in which something was injected can be refused, so it keeps its arm and its
// reward: to leave it out would be a bias.
func (a *Assignment) refusals(d *deltas) {
	if !a.Refused {
		return
	}
	d.add("", fRefused+bit(!a.Control), 0, 1)
	for i := range a.Picks {
		d.add(string(a.Picks[i].Arm), fRefused+bit(a.Picks[i].Injected), 0, 1)
	}
}

// Contribution is all that a reward y of the given tier adds to the counters. It is pure: to
// correct a reward, add Negate of the old contribution and then the new one. An excluded session
// adds nothing, and neither does a reward that is no number.
func (a *Assignment) Contribution(y float64, tier int) []Delta {
	if a.Excluded || math.IsNaN(y) {
		return nil
	}
	y = clip(y, 0, 1)
	del, inj := a.expected()
	d := make(deltas, 0, 16+32*len(a.Picks)+2*len(a.Matched))
	a.global(&d, y, tier, del, inj)
	for i := range a.Matched {
		a.unpicked(&d, a.Matched[i], y, del, inj)
	}
	for i := range a.Picks {
		a.picked(&d, &a.Picks[i], y, tier)
	}
	return d
}

// global adds the reward to the tenant's own counters and to the baseline of its category.
func (a *Assignment) global(d *deltas, y float64, tier int, del, inj float64) {
	d.add("", fTold, 0, 1)
	d.add("", fSumY, 0, y)
	if y > 0 && y < 1 {
		d.add("", fGraded, 0, 1)
	}
	if a.Decided {
		res := y - a.Base - del - inj
		d.add("", fRes2, 0, res*res)
	}
	if a.Category != "" {
		d.add(categoryScope(a.Category), fCN, 0, 1)
		d.add(categoryScope(a.Category), fCS, 0, y-del-inj)
	}
	if !a.enters() {
		return
	}
	treated := !a.Control
	n, s := fN1, fS1
	if a.Control {
		n, s = fN0, fS0
	}
	d.add("", n, a.Day, 1)
	d.add("", s, a.Day, y)
	d.add("", told(treated, tier, a.ControlP), 0, 1)
	if some, p := a.anything(); p > 0 {
		d.add("", ofAny+told(some, tier, p), 0, 1)
	}
	if z, ok := ipw(y-a.C, treated, a.ControlP); ok {
		d.add("", fN, a.Day, 1)
		d.add("", fZ, a.Day, z)
		d.add("", fZZ, a.Day, z*z)
	}
}

// anything says whether any of the first picks was injected, and with which chance none was; 0 when
// there was no coin. Later picks are left out: whether there are any may depend on the first coins.
func (a *Assignment) anything() (some bool, none float64) {
	first := 0 // their turn; a warning of a loop may have come before
	for i := range a.Picks {
		p := &a.Picks[i]
		if _, inside := a.del(p.Arm); !inside || (none > 0 && p.Turn != first) {
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
	return some, micro(none)
}

// unpicked adds the residual of a lesson that matched without being picked: it tells what the match
// says of a session.
func (a *Assignment) unpicked(d *deltas, m Match, y, del, inj float64) {
	for i := range a.Picks {
		if a.Picks[i].Arm == m.Arm {
			return
		}
	}
	d.add(string(m.Arm), fNU, a.Day, 1)
	d.add(string(m.Arm), fSU, a.Day, y-a.Base-(del-m.Del)-inj)
}

// picked adds both views of a pick: the chooser's residual, and the randomised comparison of the
// report.
func (a *Assignment) picked(d *deltas, p *Pick, y float64, tier int) {
	arm, r := string(p.Arm), y-p.Off
	if p.Injected {
		d.add(arm, fN1, a.Day, 1)
		d.add(arm, fS1, a.Day, r)
		d.add(arm, fM1, 0, 1)
		d.add(arm, fY1, 0, y)
		d.add(arm, fBetter, 0, math.Max(0, r))
		d.add(arm, fWorse, 0, math.Max(0, -r))
		if y >= 0.5 {
			d.add(arm, fSuccess, 0, 1)
		} else {
			d.add(arm, fFailure, 0, 1)
		}
	} else {
		d.add(arm, fN0, a.Day, 1)
		d.add(arm, fS0, a.Day, r)
		d.add(arm, fM0, 0, 1)
		d.add(arm, fY0, 0, y)
	}
	d.add(arm, told(p.Injected, tier, p.Eps), 0, 1)
	d.add(arm, rewarded(p.Injected, p.Eps), 0, y)
	z, ok := ipw(y-p.C, p.Injected, p.Eps)
	if !ok {
		return
	}
	d.add(arm, fN, a.Day, 1)
	d.add(arm, fZ, a.Day, z)
	d.add(arm, fZZ, a.Day, z*z)
	for k := range bets {
		l := lambda(k, p.Eps) * z
		d.add(arm, wUp+strconv.Itoa(k+1), 0, math.Log1p(l))
		d.add(arm, wDown+strconv.Itoa(k+1), 0, math.Log1p(-l))
	}
}

// ipw weighs a centred reward by the chance of its arm (inverse probability, Horvitz and Thompson
// 1952), so that its mean is the effect of being injected whatever the centre. Without a coin there
// is no comparison: ok is false.
func ipw(r float64, injected bool, eps float64) (z float64, ok bool) {
	if !(eps > 0 && eps < 1) {
		return 0, false
	}
	if injected {
		return r / (1 - eps), true
	}
	return -r / eps, true
}
