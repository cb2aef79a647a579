// Package distill drafts lessons from past sessions. A judge, either rules or a model, reads each session. The
// distiller merges duplicates and proposes drafts to the bank, which checks them.
//
// Distiller.RunOnce (runner.go) walks over a tenant's sessions and stores a mark for each (work.go). The rules parse a
// session into steps: calls with results (session.go). A case is one kind of failure over all sessions, with the
// successful fixes (case.go, repair.go). Public words in the error identify it (message.go). Cases become drafts
// (drafts.go), proposed to the bank (propose.go). A sighting is a session that supports a lesson.
//
// Contract: the distiller never runs while a request waits, and never activates a lesson. A proposal is quarantined
// until an operator approves it or, with distill.gate auto, a measured trial starts (gate.go).
//
// Hazard: a session contains names, secrets, and text for a model to obey. The rules write sentences of their own and
// quote only public words, or with one tenant also the organisation's words (private.go). A model's text passes the
// redactor and the checks.
package distill
