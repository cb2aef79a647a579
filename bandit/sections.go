package bandit

import "precept/bandit/trial"

// FlipSections decides at random which sections of rules files are withheld, at the first request that contains the
// sections. fresh holds the new picks, and shares the memory of a.Picks. earlier holds copies of picks that an earlier
// request decided. A control session keeps all sections and is not counted in the arms of the sections.
//
// The caller sets Slug, Arm, Eps, Tokens, Turn and Trial of each section. No draw selects the sections, because an
// operator registered them.
func FlipSections(cfg Config, b Beliefs, a *trial.Assignment, unit string, sections []trial.Pick) (fresh, earlier []trial.Pick) {
	startAssignment(a, cfg, b, unit)
	if a.Control {
		return nil, nil
	}
	from := len(a.Picks)
	for _, p := range sections {
		if known, ok := a.PickOf(p.Arm); ok {
			earlier = append(earlier, known)
			continue
		}
		p.Offset, p.Centre = a.Base, trial.Round(clip(a.Base, clipLo, clipHi))
		a.Flip(cfg.Salt, unit, p)
	}
	return a.Picks[from:len(a.Picks):len(a.Picks)], earlier
}
