// Package distill makes candidate lessons from past sessions. A judge reads each session and proposes
// lessons; the judge is a set of rules, or a model behind an OpenAI-compatible API. The distiller merges
// duplicates and proposes the remaining lessons to the bank, which checks them.
//
// Distiller.Once (runner.go) walks over the sessions of each tenant. For each session that was read, it stores a mark
// (work.go). The rules parse a session into steps, which are calls with results, and messages of people (session.go,
// arguments.go, shell.go). A failure is added to its case (case.go). A case is one kind of failure over all sessions.
// It is identified by the public words of the error (message.go, lists.go, known.go), and holds the fixes that worked
// (repair.go, repair_shell.go, forms.go). Corrections by people are cases as well (people.go). The cases become drafts
// of lessons (drafts.go, wording.go). If the judge is a model, it reads the session instead of the rules (ask.go,
// judge.go, model.go, client.go, prompts.go), and returns drafts and opinions (opinions.go). Each draft is compared
// with the existing lessons (lesson.go). It is proposed to the bank, or becomes evidence of an existing lesson
// (propose.go). A sighting is a session that supports a lesson.
//
// Contract: the distiller never runs on a request's path and never activates a lesson. A proposal is quarantined until
// a person approves the lesson. If distill.gate is auto, the distiller may instead start a measured trial (gate.go). A
// session is read again only if its content has changed. The clock is a parameter.
//
// Hazard: a session contains names, secrets, and text that an attacker wants a model to read. The rules write their own
// sentences. They take only public words from a session, which are words of a tool, of an error vocabulary, or of a
// command. If the store has one tenant, the rules also take words of the organisation, but no secrets, persons, ids,
// hosts and paths (private.go). The words of a model pass the redactor and the bank's checks before a person sees them.
package distill
