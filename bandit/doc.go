// Package bandit chooses lessons by Thompson sampling on the effect of each lesson. A wrong belief costs reward, but is
// no part of an effect, an interval or a proof, which package trial computes. A test of the imports checks this.
//
//   - A category groups sessions by agent, model and length of the first message. Its baseline is the mean reward.
//   - The match effect is the change of the expected reward of a session in which a lesson matches.
//   - A residual is the reward less the expected reward.
//   - A benched lesson is expected to harm, and is picked only in a small share of sessions (a probe).
//   - The room is the number of bytes that new picks may take.
//
// Decide and Contribution are pure functions. Beliefs are identical on every replica, except for the rewards of open
// sessions and a change point within a day. Chooser.Add keeps the counters of the trial and of the chooser together.
package bandit
