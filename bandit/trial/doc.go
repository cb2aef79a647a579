// Package trial implements the experiment: the random decisions, and the measurements that follow from them. The
// measurements use no belief of package bandit, which chooses the lessons and which this package does not import.
//
// The terms: an arm is a lesson with one text, or a section of a rules file (Arm). A lesson matches in a session when
// its trigger fires, and is picked when the chooser selects the lesson. A coin is a random decision. The control coin
// of a session makes the session control, which gets no lesson, or treated. The holdout coin of a pick injects or
// withholds the lesson. eps is the probability of withholding. A pick is randomised if eps is between 0 and 1. A
// stratum holds the sessions with one eps. The propensity is the probability of injection before both coins: (1 -
// eps)(1 - control). y is the reward of a session. A centre is an expected reward that does not depend on the coin, and
// z is the session's term of the effect (Z). A unit is the subject of the coins: a session, or a run with several
// member sessions.
//
// The contract: every coin is a pure function of salt, session and slug (Coin). An Assignment holds all decisions about
// a session. The contribution of the session to the counters is a pure function of the Assignment and the reward. The
// expectations of a chooser are part of the Assignment, as numbers that do not depend on the coin of their pick. Such
// numbers bias no effect, because a centre that is independent of the coin cancels out.
//
// Counters are integers in millionths, so that any order, any repetition with its undo, and any split over replicas
// results in the same bytes. The running maxima (Monotone) are the exception: maxima depend on the order of the
// sessions, and are merged by maximum.
//
// The hazard: an Assignment is frozen. Changing a field after the first request was sent, flipping a coin again, or
// filling a withheld slot with another lesson raises no error, and measures a different quantity.
//
// The package has no clock, no I/O, no goroutine and no global randomness.
package trial
