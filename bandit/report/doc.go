// Package report computes the report of one tenant from the tenant's counters: for each lesson an
// effect with an interval that is valid at any time, a verdict, and the data that a verdict still
// needs.
//
// The input is in input.go, the result in report.go. Build (build.go) makes a row of each lesson:
// the interval (interval.go), the checks of the coins (ratio.go), the planned trials (planned.go),
// the verdict (verdict.go), and the expected time of a verdict (expect.go). For people a report is
// written as a table (table.go), as the derivation of a row (explain.go), and as the cost of a
// trial (forecast.go). A Survey (survey.go) explores, and makes no verdict.
//
// The terms are those of package trial, and: a claim is the verdict "helps" or "harms". Reporting is the
// question which sessions have a reward, and SRM is the check for a sample-ratio mismatch of the
// coins. An outcome is a quantity of the traffic, such as the number of failed calls. A look, as in
// the texts for people, is the evaluation of a planned trial.
//
// The contract: an effect, an interval and a "proven" rest on the coin flips of the holdout alone.
// The beliefs of the chooser appear in fields and verdicts of their own (posterior_mean, p_helps,
// "likely ...", "benched"). Build is a pure function: the time and the current lessons are
// parameters.
//
// The hazard: a number that is shown too early, or that rests on a broken assignment, is worse than
// no number. Below 50 sessions, or with fewer than 5 in an arm, there is no effect. If the coins or
// the reporting are broken, the verdict is "invalid" for any effect. docs/EXPERIMENT.md explains
// each verdict to an operator.
package report
