// Package trial is the experiment: what was decided about a session by coins, and what that says of
// the lessons. It uses nothing but the coin flips of the holdout; if it were wrong, nobody could
// believe a report. What chooses the lessons is package bandit, of which nothing is known here.
//
// The contract: every coin is a pure function of salt, session and slug (Coin); an Assignment holds
// all that was decided about a session; what the session adds to the counters is a pure function of
// that Assignment and of the reward. What a chooser expected of the session is in the Assignment
// too, as numbers that were frozen before the coin's outcome could matter: whatever they are, they
// move no effect, because a centre that is fixed before the coin cancels out.
//
// Counters are integers in millionths, so that any order, any repetition with its undoing, and any
// split over replicas gives the same bytes. The only exception are the running maxima (Monotone),
// which remember their path and are merged by maximum.
//
// The hazard: an Assignment is frozen. Changing a field of it after the first request went out,
// flipping a coin again, or filling a withheld slot with another lesson does not fail; it silently
// measures something else.
//
// There is no clock, no input or output, no goroutine and no global randomness in this package.
package trial
