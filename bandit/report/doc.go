// Package report turns one tenant's counters into a judgement of its lessons: an effect with an
// interval that stays valid however often one looks, a verdict, and what is missing for one.
//
// What goes in is in input.go, what comes out in report.go. Build (build.go) makes a row of each
// lesson: its interval (interval.go), the checks of its coins (ratio.go), its planned trials
// (looks.go), its verdict (verdict.go), and when a verdict is to be expected (expect.go). For
// people it is written as a table (table.go), as the way in which a row came about (explain.go),
// and as what a trial would cost (forecast.go). A Survey (survey.go) explores, and makes no
// verdict.
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
