package bandit

import "precept/bandit/trial"

// FlipSections flips the coins of sections of rules files at the first request that contains the
// sections, and returns the new picks with their coins. The caller sets Slug, Arm, Eps, Tokens, Turn and
// Trial of each pick. A control session keeps all sections and stays out of the arms of the sections.
//
// No draw selects the sections: a person registered them. The centre of the reward is the baseline of the
// session, because any centre that is fixed before the coin is valid.
func FlipSections(cfg Config, b Beliefs, a *trial.Assignment, unit string, sections []trial.Pick) []trial.Pick {
	open(a, cfg, b, unit)
	if a.Control {
		return nil
	}
	from := len(a.Picks)
	for _, p := range sections {
		p.Off, p.C = a.Base, trial.Round(clip(a.Base, clipLo, clipHi))
		a.Flip(cfg.Salt, unit, p)
	}
	return a.Picks[from:len(a.Picks):len(a.Picks)]
}
