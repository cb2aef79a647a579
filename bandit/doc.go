// Package bandit chooses lessons and keeps the counts by which they are measured.
//
// Two jobs live here, kept apart on purpose. The chooser (Decide, Chooser.Posterior) may use every
// number it has: when its model is wrong, some reward is lost. The measurement (the z sums of
// Contribution, the e-values) uses nothing but the coin flips of the holdout: if it were wrong,
// nobody could believe a report. No number of the chooser ever reaches an effect, an interval or a
// proof; it enters only as an offset that was frozen before the coin's outcome could matter.
//
// The contract: everything random is a pure function of salt, session and slug (Coin); an
// Assignment holds all that was decided about a session; what the session adds to the counters is a
// pure function of that Assignment and of the reward. Counters are integers in millionths, so that
// any order, any repetition with its undoing, and any split over replicas gives the same bytes. The
// only exception are the running maxima (Monotone), which remember their path and are merged by
// maximum.
//
// The hazard: an Assignment is frozen. Changing a field of it after the first request went out,
// flipping a coin again, or filling a withheld slot with another lesson does not fail; it silently
// measures something else.
//
// There is no clock, no input or output, no goroutine and no global randomness in this package.
package bandit
