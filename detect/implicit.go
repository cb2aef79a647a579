package detect

import (
	"precept/wire"
)

// Signal is feedback that was read in the new part of a request.
type Signal struct {
	Feeling   Feeling // approval, correction, rejection
	Tier      int     // 2 a verifier's outcome, 3 implicit
	Rule      string  // which rule read it
	Sentiment bool    // read from a person's words: a reward only where the operator asks
}

// The tiers of signals.
const (
	tierVerifier = 2
	tierImplicit = 3
)

// Signals reads the feedback in what is new in the request: the outcomes of tests, lints and
// builds, a person's refusals and interrupts, and the sentiment of a person's words. mem knows the
// calls that are not in the list.
func (r *Results) Signals(req *wire.Request, mem func(callID string) (wire.Call, bool)) []Signal {
	var out []Signal
	previous := ""
	for i := req.New() - 1; i >= 0 && previous == ""; i-- {
		if req.Role(i) == wire.RoleAssistant {
			previous = said(req.Item(i), "")
		}
	}
	for i := req.New(); i < req.Len(); i++ {
		role := req.Role(i)
		if role != wire.RoleUser && role != wire.RoleTool {
			continue
		}
		it := req.Item(i)
		for _, res := range it.Results {
			s, ok := r.signal(req, res, mem)
			if ok && !r.automatic(req, i, s.Rule, res.Text) {
				out = append(out, s)
			}
		}
		if role != wire.RoleUser || it.Alike() {
			continue
		}
		turn := ReadTurn(it.Text, it.Words, previous)
		if turn.Feeling == Neutral || turn.Feeling == Thanks && !turn.Interrupt {
			continue
		}
		out = append(out, Signal{turn.Feeling, tierImplicit, turn.Rule, !turn.Interrupt})
	}
	return out
}

// signal reads one tool result.
func (r *Results) signal(
	req *wire.Request, res wire.Result, mem func(string) (wire.Call, bool),
) (Signal, bool) {
	made, ok := req.CallOf(res.CallID)
	if !ok && mem != nil {
		made, _ = mem(res.CallID)
	}
	j := r.of(made.Name, made.Args, res.Text, res.IsError)
	v := j.outcome()
	if v.Outcome == Refusal {
		return Signal{Feeling: Rejection, Tier: tierImplicit, Rule: v.Rule}, v.By == Person
	}
	kind, passed, ok := verification(j.look(), v, res.Text)
	if !ok {
		return Signal{}, false
	}
	s := Signal{Feeling: Rejection, Tier: tierVerifier, Rule: "verify:" + kind}
	if passed {
		s.Feeling = Approval
	}
	return s, true
}
