// Package feedback parses feedback from people, verifiers and the traffic, and computes a session's reward.
//
// The reward is a pure function of a session's entries as a set: arrival order, repeated delivery and replica do not
// matter. Entries are therefore never edited. A later entry with the same id or from the same rater replaces an earlier
// entry only when the reward is computed.
//
// An entry that cannot be parsed exactly is refused with the key at fault, because feedback decides an experiment's
// result. Missing feedback is not imputed.
package feedback
