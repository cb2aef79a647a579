// Package trial implements the experiment: the decisions by coins, and the conclusions from them.
// The package uses only the coin flips of the holdout, and does not import package bandit, which
// chooses the lessons.
//
// The terms: an arm is a lesson with one text, or a section of a rules file (Arm). A lesson matches in a
// session when its trigger fires, and is picked when the chooser selects the lesson. The holdout coin of
// a pick injects or withholds the lesson. eps is the probability of withholding, and a stratum holds the
// sessions with one eps. The propensity is the probability of injection before both coins:
// (1 - eps)(1 - control). The control coin makes a session control, which gets no lesson, or
// treated. y is the reward of a session, a centre is an expected reward that is frozen before the
// coin, and z is the session's term of the effect (Z). A unit is the subject of the coins: a session,
// or a run with several member sessions.
//
// The contract: every coin is a pure function of salt, session and slug (Coin). An Assignment holds
// all decisions about a session. The contribution of the session to the counters is a pure function
// of the Assignment and the reward. The expectations of a chooser are part of the Assignment as
// numbers that were frozen before the outcome of the coin could matter. These numbers bias no
// effect, because a centre that is fixed before the coin cancels out.
//
// Counters are integers in millionths, so that any order, any repetition with its undo, and any
// split over replicas results in the same bytes. The running maxima (Monotone) are the exception:
// maxima depend on the order of the sessions, and are merged by maximum.
//
// The hazard: an Assignment is frozen. Changing a field after the first request was sent, flipping
// a coin again, or filling a withheld slot with another lesson raises no error, and measures a
// different quantity.
//
// The package has no clock, no I/O, no goroutine and no global randomness.
package trial
