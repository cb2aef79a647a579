// Package distill makes drafts of lessons from past sessions. A judge reads each session and drafts lessons. The judge
// is a set of rules, or a model behind an OpenAI-compatible API. The distiller merges duplicates and proposes the
// remaining drafts to the bank, which checks them.
//
// Distiller.RunOnce (runner.go) walks over the sessions of each tenant, and stores a mark for each session that was
// read (work.go). The rules parse a session into steps, which are calls with results, and messages of the user
// (session.go, arguments.go, shell.go). A case is one kind of failure over all sessions (case.go). The public words of
// the error identify the case (message.go, lists.go, known.go). A case holds the fixes that worked (repair.go,
// repair_shell.go, forms.go). Corrections by the user are cases as well (people.go). The cases become drafts of lessons
// (drafts.go, wording.go). A model reads the session in place of the rules (ask.go, judge.go, model.go, client.go,
// prompts.go), and returns drafts and opinions (opinions.go). Each draft is compared with the existing lessons
// (lesson.go). A draft of a new lesson is proposed to the bank. The sessions of any other draft become evidence of the
// existing lesson (propose.go). A sighting is a session that supports a lesson.
//
// Contract: the distiller never runs while a request waits, and never activates a lesson. A proposal is quarantined
// until an operator approves the lesson. If distill.gate is auto, the distiller may instead start a measured trial
// (gate.go). A session is read again only if its content has changed. The clock is a parameter.
//
// Hazard: a session contains names, secrets, and text that an attacker wants a model to read. The rules write their own
// sentences. They take only public words from a session, which are words of a tool, of an error vocabulary, or of a
// command. If the store has one tenant, the rules also take words of the organisation, but no secrets, persons, ids,
// hosts and paths (private.go). The text of a model passes the redactor and the bank's checks before an operator sees
// it.
package distill
