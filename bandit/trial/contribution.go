package trial

import (
	"math"
	"slices"
	"strconv"
)

// Deltas collects a session's deltas (changes to counters).
type Deltas []Delta

// Add adds v to a counter.
func (d *Deltas) Add(scope, field string, day int32, v float64) {
	if f := Fixed(v); f != 0 {
		*d = append(*d, Delta{Key{scope, field, day}, f})
	}
}

// ClosingDeltas returns the deltas that a session adds when it closes, with or without a reward. The withheld share is
// counted here because the check on the random assignment must not depend on rewards. An excluded session adds only its
// reason.
func (a *Assignment) ClosingDeltas() []Delta {
	if a.Excluded {
		return a.exclusionDeltas()
	}
	var d Deltas
	d.Add("", fClosed, a.Day, 1)
	if a.InComparison() {
		d.Add("", stratumField(fAssigned, !a.Control, a.ControlP), 0, 1)
	} else if a.HasMatchOrLoop() {
		d.Add("", fMeasuredRules, 0, 1)
	}
	if injected, p := a.anyInjected(); p > 0 {
		d.Add("", anyPrefix+stratumField(fAssigned, injected, p), 0, 1)
	}
	a.countRefusals(&d)
	a.countReporting(&d)
	for i := range a.Matched {
		d.Add(string(a.Matched[i].Arm), fMatched, 0, 1)
	}
	added := 0
	for i := range a.Picks {
		p := &a.Picks[i]
		if _, matched := a.Match(p.Arm); !matched {
			d.Add(string(p.Arm), fMatched, 0, 1)
		}
		d.Add(string(p.Arm), fPicked, 0, 1)
		d.Add(string(p.Arm), stratumField(fAssigned, p.Injected, p.Eps), 0, 1)
		p.countClosedModel(&d, a.Model)
		if p.Injected {
			d.Add(string(p.Arm), fTokens, 0, float64(p.Tokens))
			if !p.Arm.IsRule() { // a section's text is part of the agent's own request
				added += p.Tokens
			}
		}
	}
	if !a.HasMeasuredRules { // the dashboard compares this cost with the gain in the compared sessions
		d.Add("", fAdded, a.Day, float64(added))
	}
	a.addOutcomes(&d)
	return d
}

// countReporting counts the sessions with a reward when they close. Later feedback does not change this count, so the
// e-values in the checks stay valid.
func (a *Assignment) countReporting(d *Deltas) {
	if a.RewardAtClose == nil {
		return
	}
	if a.InComparison() {
		d.Add("", tierField(fAtClose, !a.Control, a.RewardAtClose.Tier, a.ControlP), 0, 1)
	}
	if injected, p := a.anyInjected(); p > 0 {
		d.Add("", anyPrefix+tierField(fAtClose, injected, a.RewardAtClose.Tier, p), 0, 1)
	}
	for i := range a.Picks {
		p := &a.Picks[i]
		d.Add(string(p.Arm), tierField(fAtClose, p.Injected, a.RewardAtClose.Tier, p.Eps), 0, 1)
	}
}

// countRefusals counts a session with a changed request that the upstream refused. Such a session stays in the
// experiment: only sessions with an injection have changed requests, so leaving them out would bias the effect. With
// CutRefused, the refusal counts only for the rules file sections.
func (a *Assignment) countRefusals(d *Deltas) {
	if a.Refused && !a.HasMeasuredRules {
		d.Add("", fRefused+armDigit(!a.Control), 0, 1)
	}
	for i := range a.Picks {
		if p := &a.Picks[i]; a.Refused || a.CutRefused && p.Arm.IsRule() {
			d.Add(string(p.Arm), fRefused+armDigit(p.Injected), 0, 1)
		}
	}
}

// Contribution returns the deltas for a reward y in the given tier. To correct a reward, add Negate(old contribution),
// then the new contribution. An excluded session or a NaN reward adds nothing.
func (a *Assignment) Contribution(y float64, tier int) []Delta {
	if a.Excluded || math.IsNaN(y) {
		return nil
	}
	y = clip(y, 0, 1)
	d := make(Deltas, 0, 16+32*len(a.Picks)+2*len(a.Matched))
	a.addGlobal(&d, y, tier)
	for _, m := range a.Matched {
		if !slices.ContainsFunc(a.Picks, func(p Pick) bool { return p.Arm == m.Arm }) {
			d.Add(string(m.Arm), FieldUnpicked, a.Day, 1)
		}
	}
	for i := range a.Picks {
		a.addPick(&d, &a.Picks[i], y, tier)
	}
	return d
}

func (a *Assignment) addGlobal(d *Deltas, y float64, tier int) {
	d.Add("", FieldRewarded, 0, 1)
	d.Add("", fSumY, 0, y)
	if !a.InComparison() {
		return
	}
	treated := !a.Control
	n, s := FieldInjected, fS1
	if a.Control {
		n, s = FieldWithheld, fS0
	}
	d.Add("", n, a.Day, 1)
	d.Add("", s, a.Day, y)
	d.Add("", tierField(FieldRewarded, treated, tier, a.ControlP), 0, 1)
	if injected, p := a.anyInjected(); p > 0 {
		d.Add("", anyPrefix+tierField(FieldRewarded, injected, tier, p), 0, 1)
	}
	if z, ok := Z(y-a.Centre, treated, a.ControlP); ok {
		d.Add("", fN, a.Day, 1)
		d.Add("", fZ, a.Day, z)
		d.Add("", fZZ, a.Day, z*z)
	}
}

// anyInjected reports whether any pick in the first decision was injected, and returns the probability that none was.
// The probability is 0 if the picks were not random. Later picks are ignored, because an injection may have caused
// them.
func (a *Assignment) anyInjected() (injected bool, noneProbability float64) {
	first := 0 // a loop warning may precede the first picks
	for i := range a.Picks {
		p := &a.Picks[i]
		if _, matched := a.Match(p.Arm); !matched || (noneProbability > 0 && p.Turn != first) {
			continue
		}
		first = p.Turn
		if !(p.Eps > 0 && p.Eps < 1) {
			return false, 0
		}
		if noneProbability == 0 {
			noneProbability = 1
		}
		noneProbability *= p.Eps
		injected = injected || p.Injected
	}
	return injected, Round(noneProbability)
}

// addPick adds a pick's deltas for the reward y.
func (a *Assignment) addPick(d *Deltas, p *Pick, y float64, tier int) {
	arm, r := string(p.Arm), y-p.Offset
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
	d.Add(arm, tierField(FieldRewarded, p.Injected, tier, p.Eps), 0, 1)
	d.Add(arm, stratumField(fRewards, p.Injected, p.Eps), 0, y)
	if a.Graded {
		d.Add(arm, stratumField(fGradedN, p.Injected, p.Eps), 0, 1)
		d.Add(arm, stratumField(fGradedY, p.Injected, p.Eps), 0, y)
		d.Add(arm, stratumField(fGraded, p.Injected, p.Eps), 0, y*(1-y))
		if a.RewardAtClose == nil {
			d.Add(arm, stratumField(fLate, p.Injected, p.Eps), 0, 1)
		}
	}
	z, ok := Z(y-p.Centre, p.Injected, p.Eps)
	if !ok {
		return
	}
	d.Add(arm, fN, a.Day, 1)
	d.Add(arm, fZ, a.Day, z)
	d.Add(arm, fZZ, a.Day, z*z)
	if a.Graded {
		p.countRewardedSurrogate(d, z)
	}
	p.countRewardedModel(d, a.Model, z)
	for k := range betCount {
		bet := betSize(k, p.Eps) * z
		d.Add(arm, fBetUp+strconv.Itoa(k+1), 0, math.Log1p(bet))
		d.Add(arm, fBetDown+strconv.Itoa(k+1), 0, math.Log1p(-bet))
	}
}

// Z divides a centred reward by the probability of the random decision (Horvitz and Thompson 1952), and negates the
// quotient for a withheld pick. Whatever the centre is, the expected z is the effect of injecting. ok is false if the
// pick was not randomised.
func Z(r float64, injected bool, eps float64) (z float64, ok bool) {
	if !(eps > 0 && eps < 1) {
		return 0, false
	}
	if injected {
		return r / (1 - eps), true
	}
	return -r / eps, true
}

// VarianceFactor returns the factor by which random assignment inflates a reward's variance in z.
func VarianceFactor(eps float64) float64 { return 1/(1-eps) + 1/eps }
