// Package report computes the report of one tenant from the tenant's counters: for each lesson an effect with an
// interval that is valid at any time, a verdict, and the data that a verdict still needs.
//
// The input is in input.go, the result in report.go. Build (build.go) makes a row of each lesson: the interval
// (interval.go), the checks of the random assignment (ratio.go), the planned trials (planned.go), the verdict
// (verdict.go), and the expected time of a verdict (expect.go). For people a report is written as a table (table.go),
// as the derivation of a row (explain.go), and as the cost of a trial (forecast.go). A Survey (survey.go) explores, and
// makes no verdict.
//
// The terms are those of package trial, and: a claim is the verdict "helps" or "harms". Reporting means which sessions
// have a reward, and from which tier. SRM is the check for a sample-ratio mismatch, which finds a faulty random
// assignment. An outcome is a quantity of the traffic, such as the number of failed calls. In texts for people, a look
// is the evaluation of a planned trial.
//
// The contract: effects, intervals and the word "proven" follow from the random assignment of the holdout alone. The
// beliefs of the chooser appear in fields and verdicts of their own (posterior_mean, p_helps, "likely ...", "benched").
// Build is a pure function: the time and the current lessons are parameters.
//
// The hazard: a number that is shown too early, or that rests on a faulty assignment, is worse than no number. Below 50
// sessions, or with fewer than 5 in an arm, there is no effect. If the random assignment or the reporting is faulty,
// the verdict is "invalid" for any effect. docs/EXPERIMENT.md explains each verdict to an operator.
package report
