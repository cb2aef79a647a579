// Package bank writes lessons into a bank: a directory or a fleet's Redis. A Bank checks the lessons; a Storage
// (Directory here, redis.Bank in store/redis) stores the texts. Package banktest tests each Storage.
//
// A program's lesson is checked, and its claims about counts, state and approval are dropped. The lesson is quarantined
// until a person approves it with Act. Only a lesson that an agent wrote for itself alone can be active without
// approval (Proposal.ActivateNow).
//
// In the same step, every write also updates the index and appends to the audit log. A refused write returns *Refused,
// ErrNoLesson, ErrTooMany or ErrTenantLessons.
//
// The hazard: an editor or another replica can change the bank at any time. Every write names the texts that it
// replaces. If they have changed, the write starts again from the current texts.
package bank
