// Package feedback parses the feedback of people, verifiers and the traffic, and computes the
// reward of a session from the feedback.
//
// The contract: the reward is a pure function of the set of a session's entries. Order of arrival, repeated delivery
// and replica do not change a single bit of the reward. Entries are therefore never edited. A later entry with the same
// id or of the same rater replaces an earlier entry when the reward is computed, not when the entry is stored. A post
// that repeats a stored entry (Entry.Repeats) is stored with the time of the stored entry, because a repetition is not
// a new opinion.
//
// The hazard: feedback decides the result of an experiment. An entry that cannot be parsed exactly
// is refused with the key at fault, and missing feedback is not imputed.
package feedback
