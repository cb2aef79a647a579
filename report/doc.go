// Package report turns one tenant's counters into a judgement of its lessons: an effect with an
// interval that stays valid however often one looks, a verdict, and what is missing for one.
//
// The contract: an effect, an interval and a "proven" rest on the coin flips of the holdout alone.
// What the chooser believes appears beside them, in fields and verdicts that say so
// (posterior_mean, p_helps, "likely ...", "benched"). Build is a pure function: the moment and the
// lessons in force are parameters, the same input gives the same report.
//
// The hazard: a number that is shown too early, or that stands on a broken assignment, is worse
// than none. Below 50 sessions, or with fewer than 5 in an arm, there is no effect; and when the
// coins or the reporting are off, the verdict is "invalid" whatever the effect looks like.
// docs/EXPERIMENT.md explains each verdict to an operator.
package report
