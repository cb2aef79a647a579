// Package feedback parses the feedback of people, verifiers and the traffic, and computes the reward of a session.
//
// The reward is a pure function of the set of a session's entries: order of arrival, repeated delivery and replica do
// not change a bit. Entries are therefore never edited. A later entry with the same id or of the same rater replaces an
// earlier entry when the reward is computed, not when the entry is stored.
//
// An entry that cannot be parsed exactly is refused with the key at fault, because feedback decides the result of an
// experiment. Missing feedback is not imputed.
package feedback
