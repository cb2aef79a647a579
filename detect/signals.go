package detect

import (
	"slices"
	"strings"

	"precept/internal/wire"
)

// Signal is feedback in the new part of a request.
type Signal struct {
	Feeling   Feeling // approval, correction, rejection
	Tier      int     // 2 for the outcome of a test, lint or build, 3 for implicit feedback
	Rule      string  // rule that found the signal
	Sentiment bool    // from the words of a person: a reward only if the operator enables sentiment
}

// Tiers of signals.
const (
	tierVerifier = 2
	TierImplicit = 3 // words, refusals and interrupts of a person in the traffic
)

// Signals returns the feedback in the new items of a request: outcomes of tests, lints and builds, refusals and
// interrupts of a person, and the sentiment of a person's words. recall returns calls of earlier requests.
func (r *Results) Signals(req *wire.Request, recall func(callID string) (wire.Call, bool)) []Signal {
	var out []Signal
	previous := ""
	for i := req.New() - 1; i >= 0 && previous == ""; i-- {
		if req.Role(i) == wire.RoleAssistant {
			previous = newestAnswer(req.Item(i), "")
		}
	}
	for i := req.New(); i < req.Len(); i++ {
		role := req.Role(i)
		if role != wire.RoleUser && role != wire.RoleTool {
			continue
		}
		it := req.Item(i)
		for _, res := range it.Results {
			s, ok := r.signal(req, res, recall)
			if ok && !r.isAutomatic(req, i, s.Rule, res.Text) {
				out = append(out, s)
			}
		}
		if role != wire.RoleUser || it.ResultInferred() {
			continue
		}
		opinion := ReadTurn(it.Text, it.Words, previous)
		if opinion.Feeling == Neutral || opinion.Feeling == Thanks && !opinion.Interrupt {
			continue
		}
		out = append(out, Signal{opinion.Feeling, TierImplicit, opinion.Rule, !opinion.Interrupt})
	}
	return out
}

// signal returns the feedback in one tool result.
func (r *Results) signal(
	req *wire.Request, res wire.Result, recall func(string) (wire.Call, bool),
) (Signal, bool) {
	made, _ := callOf(req, res.CallID, recall)
	j := r.entry(callResult{made.Name, made.Args, res.Text, res.IsError})
	v := j.outcome()
	if v.Outcome == Refusal {
		return Signal{Feeling: Rejection, Tier: TierImplicit, Rule: v.Rule}, v.By == Person
	}
	kind, passed := verification(j.toolCall(), v, res.Text)
	if kind == "" {
		return Signal{}, false
	}
	s := Signal{Feeling: Rejection, Tier: tierVerifier, Rule: "verify:" + kind}
	if passed {
		s.Feeling = Approval
	}
	return s, true
}

// isAutomatic reports whether a harness refused in the words of a person while no person was present, as the
// run command of opencode does. A request of the run command does not offer the tool that asks a person, or has
// the prompt in quotes. A refusal with the feedback of a person is the refusal of a person.
func (r *Results) isAutomatic(req *wire.Request, item int, rule, text string) bool {
	low := strings.ToLower(cutText(text, refusalLead))
	if rule != "refusal:opencode" || strings.Contains(low, "with the following feedback") {
		return false
	}
	if slices.Contains(req.Tools, "todowrite") && !slices.Contains(req.Tools, "question") {
		return true
	}
	return r.prompt.isQuoted(req, item)
}

// newestAnswer returns the text of the item, or previous if the item has no text. A blank means that the agent
// called tools and wrote no text.
func newestAnswer(it *wire.Item, previous string) string {
	if it.Text != "" {
		return it.Text
	}
	if previous == "" {
		return " "
	}
	return previous
}
