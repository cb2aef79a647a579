package detect

import "precept/wire"

// transcript is a list that is read from its start to its end, as the proxy would have seen it
// grow. What was judged stays judged, so a list costs what it is long.
type transcript struct {
	req     *wire.Request
	emit    func(Finding) error
	steps   []*step // oldest first
	batch   int
	made    []wire.Call          // by the answer before what is read now
	results int                  // read behind that answer
	calls   map[string]wire.Call // by id, of equal ids the newest
	lone    wire.Call            // the newest that was the only call of its item
	seen    map[uint64]bool      // rough keys of the calls that were answered in earlier batches
	said    string               // the agent's newest text
	visits  int
}

// inspectList emits what is found in one list.
func inspectList(req *wire.Request, emit func(Finding) error) error {
	t := transcript{req: req, emit: emit, calls: map[string]wire.Call{}, seen: map[uint64]bool{}}
	for from := 0; from < req.Len(); {
		to := from
		for ; to < req.Len() && req.Role(to) == wire.RoleAssistant; to++ {
			t.answer(req.Item(to))
		}
		first := len(t.steps)
		t.results = 0
		for from = to; to < req.Len() && req.Role(to) != wire.RoleAssistant; to++ {
			t.add(to)
		}
		if err := t.emitBatch(from, to, first); err != nil {
			return err
		}
		from, t.made = to, nil
	}
	return nil
}

// answer reads an item of the model's.
func (t *transcript) answer(it *wire.Item) {
	t.said = said(it, t.said)
	for _, c := range it.Calls {
		t.made = append(t.made, c)
		t.calls[c.ID] = c
	}
	if len(it.Calls) == 1 {
		t.lone = it.Calls[0]
	}
}

// said is the agent's newest text; an agent that only called tools has answered too.
func said(it *wire.Item, previous string) string {
	if it.Text != "" {
		return it.Text
	}
	if previous == "" {
		return " "
	}
	return previous
}

// add makes the steps of an item: its results, then the words of a person.
func (t *transcript) add(i int) {
	role := t.req.Role(i)
	if role != wire.RoleUser && role != wire.RoleTool {
		return
	}
	for _, c := range t.req.Item(i).Calls {
		t.calls[c.ID] = c
	}
	for _, r := range t.req.Item(i).Results {
		if r.Own {
			t.batch++
		}
		call := t.call(r.CallID, t.results)
		t.results++
		text := unlabelled(r)
		t.steps = append(t.steps, &step{
			item: i, batch: t.batch, callID: r.CallID, text: text, flag: r.IsError, tool: call.Name, args: call.Args, written: r.Written, own: r.Own, unasked: r.Own && r.Block < 0,
			about: &judged{result: result{call.Name, call.Args, text, r.IsError}},
		})
	}
	if words, ok := speaks(t.req, i); ok {
		t.steps = append(t.steps, personStep(i, words))
	}
}

// call finds the call of the nth result of a batch: the newest with that id; without ids the one at
// the same place, else the answer's only one.
func (t *transcript) call(id string, nth int) wire.Call {
	if id != "" {
		return t.calls[id]
	}
	if nth < len(t.made) {
		return t.made[nth]
	}
	return t.lone
}

// emitBatch says what is found in the items of a batch, whose first step is first.
func (t *transcript) emitBatch(from, to, first int) error {
	batch := t.steps[first:]
	loops := t.loops(first)
	at, loop := 0, 0
	for i := from; i < to; i++ {
		for ; at < len(batch) && batch[at].item == i; at++ {
			if s := batch[at]; !s.person {
				v := s.outcome()
				if err := t.emit(Finding{Index: i, Kind: KindResult, Label: string(v.Outcome), Rule: v.Rule, Tool: s.tool}); err != nil {
					return err
				}
			}
		}
		for ; loop < len(loops) && loops[loop].Index == i; loop++ {
			l := &loops[loop]
			if err := t.emit(Finding{Index: i, Kind: KindLoop, Rule: l.Rule, Tool: l.Tool}); err != nil {
				return err
			}
		}
		if err := t.user(i); err != nil {
			return err
		}
	}
	t.batch++
	for _, s := range batch {
		if !s.person {
			t.seen[s.rough()] = true
		}
	}
	return nil
}

// loops judges the steps of the newest batch.
func (t *transcript) loops(first int) []Loop {
	var loops []Loop
	var found map[string]bool
	for i := first; i < len(t.steps); i++ {
		s := t.steps[i]
		if s.person || s.unasked || s.tool == "" || !s.own && !t.seen[s.rough()] {
			continue
		}
		l, ok := judge(func(back int) *step {
			if t.visits++; back > i || t.visits > maxVisits+visitsAStep*len(t.steps) {
				return nil
			}
			return t.steps[i-back]
		})
		if !ok || found[l.Tool+"\x00"+l.Args] { // the same call twice in one answer
			continue
		}
		if found == nil {
			found = map[string]bool{}
		}
		found[l.Tool+"\x00"+l.Args], s.warned = true, true
		loops = append(loops, l)
	}
	return loops
}

// visitsAStep is how many steps may be looked back at for each that there is, on the average: the
// work grows with the list, not with its square.
const visitsAStep = 64

// user reads what a person says in an item.
func (t *transcript) user(i int) error {
	if t.req.Role(i) != wire.RoleUser {
		return nil
	}
	it := t.req.Item(i)
	if it.Alike() || it.Words == "" && (it.Text == "" || len(it.Results) > 0) {
		return nil
	}
	turn := ReadTurn(it.Text, it.Words, t.said)
	return t.emit(Finding{Index: i, Kind: KindUser, Label: string(turn.Feeling), Rule: turn.Rule})
}

// rough is the step's rough key.
func (s *step) rough() uint64 {
	call := s.look()
	return roughKeyOf(s.tool, s.args, call.args)
}
