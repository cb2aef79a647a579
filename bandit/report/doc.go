// Package report computes one tenant's report from counters. For each lesson, the report has an effect with an interval
// that is valid at any time, a verdict, and the data that a verdict still needs. docs/EXPERIMENT.md explains the
// verdicts.
//
//   - A pick is a lesson chosen for a session. It is then withheld with probability epsilon, and otherwise injected. A
//     pick is closed or rewarded if the session is.
//   - A pick's z is what the pick adds to the effect; a centre is a reward expected before the random assignment.
//   - A claim is the verdict "helps" or "harms".
//   - Reporting means which sessions have a reward, and which tier (kind of source) the reward comes from.
//   - An e-value is evidence against a hypothesis. If the hypothesis is true, the e-value's mean is at most 1 at every
//     time.
//   - An outcome is a quantity observed in the traffic, such as the number of failed calls.
//   - A look is the single evaluation of a planned trial.
//
// Effects and the word "proven" rest on random assignment alone. The chooser's beliefs have separate verdicts ("likely
// ...", "benched"). Below 50 rewarded picks, 5 injected or 5 withheld, the report shows no effect.
package report
