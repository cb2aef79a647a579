package detect

import (
	"io"
	"slices"

	"precept/internal/wire"
)

// Finding is a finding in a transcript, as `precept inspect --json` prints the finding.
type Finding struct {
	Source string `json:"source"`
	ID     string `json:"id"`
	Index  int    `json:"index"` // in the list as given, from 0
	Kind   string `json:"kind"`  // tool_result | loop | user
	Label  string `json:"label,omitempty"`

	Rule string `json:"-"` // rule that decided, for people
	Tool string `json:"-"` // name of the tool, for a tool result and a loop
}

// Kinds of findings.
const (
	KindResult = "tool_result"
	KindLoop   = "loop"
	KindUser   = "user"
)

// Inspect reads transcripts, as Read does, and emits the findings in the order of the lists.
func Inspect(r io.Reader, emit func(Finding) error) error {
	return Read(r, func(t Transcript) error {
		return inspectList(t.Request, func(f Finding, _ func() Explanation) error {
			f.Source, f.ID = t.Source, t.ID
			return emit(f)
		})
	})
}

// inspectList emits the findings of one list in the order in which a proxy would have seen the list
// grow. No step is judged twice, so the cost is linear.
func inspectList(req *wire.Request, emit func(f Finding, explain func() Explanation) error) error {
	h := &history{req: req, fresh: req.Len(), next: req.Len()}
	for h.fill() {
	}
	h.visits = maxVisits + visitsAStep*len(h.steps)
	t := transcript{req: req, emit: emit, steps: h.steps, all: h.steps}
	first := map[uint64]int{} // batch in which a call was answered first
	t.loops = h.findLoops(len(h.steps), len(h.steps), func(s *step) bool {
		repeated := s.own
		for _, key := range []uint64{s.identity(), uint64(s.loose())} {
			batch, ok := first[key]
			if !ok {
				batch, first[key] = s.batch, s.batch
			}
			repeated = repeated || key != 0 && batch != s.batch
		}
		return repeated
	})
	for i := range req.Len() {
		if err := t.item(i); err != nil {
			return err
		}
	}
	return nil
}

// visitsAStep is the average number of steps that are compared with each step. The bound keeps the
// work linear.
const visitsAStep = 64

// transcript is a read list during the emission of its findings.
type transcript struct {
	req    *wire.Request
	emit   func(Finding, func() Explanation) error
	all    []*step // newest first
	steps  []*step // not yet emitted, newest first
	loops  []Loop  // not yet emitted, oldest first
	answer string  // newest text of the agent
}

// item emits the findings of an item: results, loops, and the opinion of a person.
func (t *transcript) item(i int) error {
	if t.req.Role(i) == wire.RoleAssistant {
		t.answer = newestAnswer(t.req.Item(i), t.answer)
	}
	for ; len(t.steps) > 0 && t.steps[len(t.steps)-1].item == i; t.steps = t.steps[:len(t.steps)-1] {
		s := t.steps[len(t.steps)-1]
		if s.person {
			continue
		}
		v := s.outcome()
		if err := t.emit(Finding{
			Index: i, Kind: KindResult, Label: string(v.Outcome), Rule: v.Rule, Tool: s.call.result.tool,
		}, func() Explanation { return explainResult(s) }); err != nil {
			return err
		}
	}
	for ; len(t.loops) > 0 && t.loops[0].Index == i; t.loops = t.loops[1:] {
		l := t.loops[0]
		if err := t.emit(Finding{Index: i, Kind: KindLoop, Rule: l.Rule, Tool: l.Tool}, func() Explanation { return t.explainLoop(l) }); err != nil {
			return err
		}
	}
	return t.user(i)
}

// user emits the opinion of a person in an item.
func (t *transcript) user(i int) error {
	if t.req.Role(i) != wire.RoleUser {
		return nil
	}
	it := t.req.Item(i)
	if it.ResultInferred() || it.Words == "" && (it.Text == "" || len(it.Results) > 0) {
		return nil
	}
	turn := ReadTurn(it.Text, it.Words, t.answer)
	answer := t.answer
	return t.emit(Finding{Index: i, Kind: KindUser, Label: string(turn.Feeling), Rule: turn.Rule},
		func() Explanation { return explainTurn(it.Text, it.Words, answer, turn) })
}

// explainLoop returns the first line of the repeated result, the call, and the item of the earlier result.
func (t *transcript) explainLoop(l Loop) Explanation {
	i := slices.IndexFunc(t.all, func(s *step) bool {
		return !s.person && s.item == l.Index && s.callID == l.CallID && s.call.result.args == l.Args
	})
	if i < 0 {
		return Explanation{Args: cutRunes(l.Args, maxExplained)}
	}
	now := t.all[i]
	e := explainResult(now)
	for _, s := range t.all[i+1:] {
		if !s.person && s.batch != now.batch && (sameCall(now, s) || now.loose() != 0 && s.loose() == now.loose()) {
			e.Before = &s.item
			break
		}
	}
	return e
}
