// Package bandit chooses lessons: by what is believed of each, drawn anew for each session.
//
// It stands above package trial, which flips the coins and keeps what they show. The chooser may
// use every number it has, the trial's among them: when its model is wrong, some reward is lost.
// Nothing of it goes the other way, and a test of the imports says so: no number of the chooser
// reaches an effect, an interval or a proof. It enters a session's Assignment only, as offsets that
// are frozen before the coin's outcome can matter.
//
// The contract: Decide is a pure function of the configuration, the beliefs, the assignment so far,
// and coins of salt, session and slug. What a told session adds (Contribution) is a pure function
// of its Assignment and of the reward. Beliefs follow from integer sums; they are the same on every
// replica and after a restart, but for what open sessions have told (AddProvisional) and for a
// change point within a day.
//
// The hazard: a Chooser owns the trial's counters that it reads, and adds to both. Deltas that are
// added to one alone leave a belief without its evidence.
//
// There is no clock, no input or output, no goroutine and no global randomness in this package.
package bandit
