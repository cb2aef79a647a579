// Package report computes one tenant's report from counters: for each lesson an effect with an interval that is valid
// at any time, a verdict, and the data that a verdict still needs. docs/EXPERIMENT.md explains the verdicts.
//
//   - A claim is the verdict "helps" or "harms".
//   - Reporting means which sessions have a reward, and from which tier.
//   - SRM, the check for a sample-ratio mismatch, finds a faulty random assignment.
//   - An outcome is a quantity observed in the traffic, such as the number of failed calls.
//   - A look is a planned trial's evaluation.
//
// Effects and the word "proven" follow from random assignment alone. The chooser's beliefs have separate verdicts
// ("likely ...", "benched"). Below 50 sessions, or with fewer than 5 in an arm, there is no effect.
package report
