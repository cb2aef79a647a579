// Package bandit chooses lessons by Thompson sampling on each lesson's effect. A wrong belief costs reward, but never
// enters an effect, an interval or a proof: package trial computes those. An import test checks this.
//
//   - A category groups sessions by agent, model and first message length. Its baseline is the mean reward.
//   - The match effect is the change in a session's expected reward when a lesson matches.
//   - A residual is the reward minus the expected reward.
//   - A benched lesson is expected to harm, and is picked only in a small share of sessions (a probe).
//   - The room is the number of bytes that new picks may take.
//
// Decide and Contribution are pure functions. Beliefs are identical on every replica, except for rewards in open
// sessions and a change point within a day. Chooser.Add keeps the trial's and the chooser's counters together.
package bandit
