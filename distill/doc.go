// Package distill drafts lessons from past sessions. A judge, either the built-in rules or a model, reads each session.
// The distiller merges duplicates and proposes drafts to the bank (the lessons' store), which checks them.
//
// Distiller.RunOnce (runner.go) walks over a tenant's sessions. For each session, it stores a mark, which records what
// was read and counted (mark.go). The rules parse a session into steps, which are tool calls with their results
// (session.go). A case is one kind of failure over all sessions, with the successful fixes (case.go, repair.go). A case
// is identified by the public words in the error message, which belong to no user or organisation (message.go). Cases
// become drafts (drafts.go), which are proposed to the bank (propose.go). A sighting is a session that supports a
// lesson.
//
// Contract: no request waits for the distiller, and the distiller never activates a lesson. A proposal is quarantined
// until an operator approves it or, with distill.gate auto, a measured trial starts (gate.go).
//
// Hazard: a session contains names, secrets, and text that tries to instruct a model. The rules write fixed sentences
// and quote only public words; if the store has one tenant, they also quote the organisation's words (private.go). A
// model's text passes the redactor and the checks.
package distill
