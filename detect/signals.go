package detect

import (
	"slices"
	"strings"

	"precept/internal/wire"
)

// Signal is feedback that precept derives from the new items in a request.
type Signal struct {
	Feeling   Feeling
	Tier      int // reliability: tierVerifier or TierImplicit
	Rule      string
	Sentiment bool // derived from the user's words; a reward only if the operator enables sentiment
}

// Signal tiers. Feedback with a lower tier is more reliable.
const (
	tierVerifier = 2 // test, lint or build outcome
	TierImplicit = 3 // the user's words, refusals and interrupts
)

// Signals returns the feedback in a request's new items: test, lint and build outcomes, refusals and interrupts, and
// the user's sentiment. recall returns calls in earlier requests.
func (r *Results) Signals(req *wire.Request, recall func(callID string) (wire.Call, bool)) []Signal {
	var out []Signal
	previous := ""
	for i := req.FirstNew() - 1; i >= 0 && previous == ""; i-- {
		if req.Role(i) == wire.RoleAssistant {
			previous = newestAnswer(req.Item(i), "")
		}
	}
	for i := req.FirstNew(); i < req.Len(); i++ {
		role := req.Role(i)
		if role != wire.RoleUser && role != wire.RoleTool {
			continue
		}
		it := req.Item(i)
		for _, res := range it.Results {
			s, ok := r.resultSignal(req, res, recall)
			if ok && !r.isAutomatic(req, i, s.Rule, res.Text) {
				out = append(out, s)
			}
		}
		if role != wire.RoleUser || it.ResultInferred() {
			continue
		}
		opinion := ClassifyTurn(it.Text, it.UserText, previous)
		if opinion.Feeling == Neutral || opinion.Feeling == Thanks && !opinion.Interrupt {
			continue
		}
		out = append(out, Signal{opinion.Feeling, TierImplicit, opinion.Rule, !opinion.Interrupt})
	}
	return out
}

func (r *Results) resultSignal(
	req *wire.Request, res wire.Result, recall func(string) (wire.Call, bool),
) (Signal, bool) {
	call, _ := findCall(req, res.CallID, recall)
	j := r.entry(callResult{call.Name, call.Args, res.Text, res.IsError})
	v := j.classify()
	if v.Outcome == Refusal {
		return Signal{Feeling: Rejection, Tier: TierImplicit, Rule: v.Rule}, v.Refuser == UserRefuser
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

// isAutomatic reports whether a harness refused a call by itself, but used the same words as for a user's refusal.
// opencode does so if it runs without a user. In that case, the request offers the "todowrite" tool but no "question"
// tool, or has the user's words in double quotes. A refusal with the user's feedback is never automatic.
func (r *Results) isAutomatic(req *wire.Request, item int, rule, text string) bool {
	low := strings.ToLower(cutText(text, maxRefusalHead))
	if rule != "refusal:opencode" || strings.Contains(low, "with the following feedback") {
		return false
	}
	if slices.Contains(req.Tools, "todowrite") && !slices.Contains(req.Tools, "question") {
		return true
	}
	return r.prompt.isPromptQuoted(req, item)
}

// newestAnswer returns the text of an answer or, if the answer has no text, previous. If both are empty, it returns a
// blank, because an empty text would mean that the agent has not answered yet.
func newestAnswer(it *wire.Item, previous string) string {
	if it.Text != "" {
		return it.Text
	}
	if previous == "" {
		return " "
	}
	return previous
}
