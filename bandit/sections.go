package bandit

import "precept/bandit/trial"

// FlipSections decides at random which rules file sections are withheld. It decides about each section once, in the
// first request with that section. fresh holds the new picks, and shares memory with a.Picks. earlier holds copies of
// the picks that an earlier request decided. A control session keeps all sections, and does not count in any section's
// arm.
//
// For each section, the caller sets Slug, Arm, Eps, Tokens, Turn and Trial. The chooser does not select sections,
// because an operator registered them.
func FlipSections(cfg Config, b Beliefs, a *trial.Assignment, unit string, sections []trial.Pick) (fresh, earlier []trial.Pick) {
	startAssignment(a, cfg, b, unit)
	if a.Control {
		return nil, nil
	}
	from := len(a.Picks)
	for _, p := range sections {
		if old, ok := a.PickByArm(p.Arm); ok {
			earlier = append(earlier, old)
			continue
		}
		p.Offset, p.Centre = a.Base, trial.Round(clip(a.Base, minCentre, maxCentre))
		a.Flip(cfg.Salt, unit, p)
	}
	return a.Picks[from:len(a.Picks):len(a.Picks)], earlier
}
