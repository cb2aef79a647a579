// Package bandit chooses lessons by Thompson sampling on the effect of each lesson.
//
// Package bandit uses package trial, which makes the random decisions and counts their results. The chooser may read
// every number, because a wrong model of the chooser only costs reward. No belief of the chooser is part of an effect,
// an interval or a proof; a test of the imports checks this rule. Beliefs enter a session's Assignment as numbers that
// do not depend on the coin of their pick.
//
// The terms are those of package trial, and: a category is the group of sessions with the same agent, model and length
// of the first message. Its baseline is the mean reward without lessons. The match effect (Del) is the change of the
// expected reward of a session in which a lesson matches. A residual is the reward less the expected reward. A benched
// lesson is expected to harm, and is picked as a probe only, in a small share of the sessions. The room is the number
// of bytes that new picks may take.
//
// The contract: Decide is a pure function of the configuration, the beliefs, the assignment so far, and coins of salt,
// session and slug. The contribution of a rewarded session (Contribution) is a pure function of its Assignment and the
// reward. Beliefs follow from integer sums and are identical on every replica and after a restart, except for the
// rewards of open sessions (AddProvisional) and a change point within a day.
//
// The hazard: a Chooser owns the trial's counters, and Chooser.Add adds to the counters of the trial and of the
// chooser. Deltas that are added to only one of the two separate a belief from its evidence.
//
// The package has no clock, no I/O, no goroutine and no global randomness.
package bandit
