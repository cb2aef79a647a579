// Package distill makes candidate lessons from past sessions. A judge reads each session and proposes
// lessons; the judge is a set of rules, or a model behind an OpenAI-compatible API. The distiller merges
// duplicates and proposes the remaining lessons to the bank, which checks them.
//
// The path of a session: Distiller.Once (runner.go) walks over the sessions of each tenant and stores
// a mark, a note about each session that was read (work.go). With rules, a session becomes steps, which
// are calls with results, and messages of people (session.go, arguments.go, shell.go). Failures become
// cases (case.go): a case is one kind of failure over all sessions, identified by the public words of
// the error (message.go, lists.go, known.go), with the fix that worked (repair.go, repair_shell.go,
// forms.go). Corrections by people become cases as well (people.go). The cases of all sessions become
// drafts of lessons (drafts.go) with words (wording.go). With a model, the model is asked instead
// (ask.go, judge.go, model.go, client.go, prompts.go) and returns drafts and opinions (opinions.go).
// Each draft is compared with the existing lessons (lesson.go), and proposed to the bank or added to a
// lesson as evidence (propose.go). A sighting is a session that supports a lesson.
//
// The contract: the distiller never runs on a request's path and never activates a lesson. A
// proposal is quarantined until a person approves the lesson, or starts a measured trial if
// distill.gate is auto (gate.go). A session is read once per state of its content; running again
// changes nothing. The clock is a parameter.
//
// The hazard: a session contains names, secrets, and text that an attacker wants a model to read.
// The rules write their own sentences and take only public words from a session: words of a tool,
// of an error vocabulary, of a command. In a store with one tenant the rules also take the words of
// the organisation, without secrets, persons, ids, hosts and paths (private.go). A model's words
// pass the redactor and the bank's checks before a person sees them.
package distill
