// Package feedback parses feedback from people, verifiers and the traffic, and computes a session's reward.
//
// The reward is a pure function of the set of a session's entries: the order of arrival, repeated deliveries and the
// receiving replica do not matter. Entries are therefore never edited. A later entry replaces an earlier entry with the
// same id or from the same rater only when the reward is computed.
//
// Feedback decides an experiment's result, so an entry that cannot be parsed exactly is refused with an error that
// names the key. Missing feedback is not imputed.
package feedback
