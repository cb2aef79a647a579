// Package feedback reads what people, verifiers and the traffic say of a session, and folds it into
// the session's reward.
//
// The contract: the reward is a pure function of the set of a session's entries. In which order
// they arrive, how often one is delivered, on which replica: the reward is the same, bit for bit.
// Entries are therefore never edited; a later entry of the same id or of the same rater replaces an
// earlier one when the reward is computed, not when it is stored.
//
// The hazard: feedback decides what an experiment says. What cannot be read exactly is refused with
// the key at fault, not guessed at; what nobody said is not imputed.
package feedback
