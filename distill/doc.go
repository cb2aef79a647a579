// Package distill makes candidate lessons out of past sessions: it reads what happened, lets a
// judge (rules, or a model behind an OpenAI-compatible API) say what can be learned from it, merges
// what says the same, and hands the rest to the bank, which checks and gates it.
//
// The way of a session: Distiller.Once (runner.go) goes over the sessions of each tenant and notes
// what it has read (work.go). By rules, a session is laid out as steps and turns (session.go,
// arguments.go, shell.go); what failed becomes cases (case.go), known by the public words of the
// error (message.go, lists.go, known.go), with what helped (repair.go, repair_shell.go, forms.go)
// and what people said (people.go); the cases of all sessions become drafts (drafts.go), which are
// put into words (wording.go). Where there is a model, it is asked instead (ask.go, judge.go,
// model.go, client.go, prompts.go), and gives drafts and opinions (opinions.go). Each draft is held
// against the lessons that are there (lesson.go), and handed to the bank or added to one of them as
// evidence (propose.go).
//
// Contract: it never works on a request's path, and it never lets a lesson in: what it proposes is
// quarantined until a person approves it, or goes to a measured trial where the operator asked for
// that (Gate). A session is read once for each state of its content; running again changes nothing.
// The clock is a parameter.
//
// Hazard: a session holds names, secrets and whatever somebody wanted a model to read. The rules
// write sentences of their own and take from a session only words that are public: of a tool, of an
// error vocabulary, of a command. A model's words pass the redactor and the bank's checks before
// anybody sees them.
package distill
