package proxy

import (
	"encoding/json"
	"time"

	"precept/detect"
	"precept/internal/sample"
	"precept/store"
)

// exchange is a turn as it is kept.
type exchange struct {
	watch
	kept      *sample.Exchange // nil for nothing
	begun     *store.Begun
	size      int64           // bytes of what is kept
	gathered  bool            // kept, signals and answers hold what the request says
	completed bool            // kept holds what became of it
	signals   []detect.Signal // what the traffic says of the session
	answers   []string        // arguments of the calls that the request's results answer
	offered   bool            // the recorder judges the turn
}

// record hands what is worth keeping to the recorder, and gives the session back. It copies only
// what is new in the turn.
func (t *exchange) record() {
	if t.ses == nil {
		if t.found.Unit != nil {
			t.opts.Store.Release(t.found.Unit, store.Unchanged)
		}
		return
	}
	defer t.opts.Store.Abandon(t.begun) // nothing to do when it was offered
	now := t.opts.Now()
	t.over()
	main := t.found.Side == ""
	changed := store.Unchanged
	defer func() { // also when what follows panics
		t.unoffered()
		t.opts.Store.Release(t.ses, changed)
		if t.found.Unit != nil {
			t.opts.Store.Release(t.found.Unit, changed)
		}
	}()
	if !t.query.Learn {
		t.opts.Store.Tally.OptedOut.Add(1)
		if main {
			changed = store.Counted // a row that there is learns that this turn opted out
		}
		return
	}
	switch {
	case t.decided():
		changed = store.Decided
	case main:
		changed = store.Counted
	}
	if t.kept == nil || !t.gathered {
		return
	}
	t.complete(now)
	t.offer()
}

// decided says that the turn decided something which later turns have to keep to.
func (t *exchange) decided() bool {
	return t.found.New || len(t.plan.Picks)+len(t.plan.Matched)+t.plan.Loops > 0 || t.plan.Answered
}

// begin admits the turn, before its request goes out.
func (t *exchange) begin() {
	if t.ses == nil || t.found.Side != "" || !t.query.Learn || t.set.cfg.Limits.CaptureBytes <= 0 {
		return
	}
	id, err := sample.NewID(t.opts.Rand)
	if err != nil {
		return
	}
	t.kept = &sample.Exchange{
		ID: id, Tenant: t.who.tenant, Agent: t.query.Claim.Agent, Session: t.ses.Identity.ID.String(), SessionName: t.ses.Identity.Name, Run: t.ses.Unit.RunName,
		RequestID: t.w.id, Turn: t.number, At: t.started.UTC(), Dialect: t.dialect.String(), Model: t.req.Model,
		Loops: t.plan.Loops, Book: t.book.Hash(), Config: t.set.hash, Lessons: t.plan.Lessons,
	}
	t.begun = t.opts.Store.Begin(t.kept)
}

// gather takes what is kept of the request out of its buffer, which is about to be given back.
func (t *exchange) gather() {
	if t.kept == nil {
		return
	}
	t.size = int64(t.newItems(t.kept))
	t.signals, t.answers = t.results.Signals(t.req, t.remembered), t.arguments()
	if results, failed := t.results.Failed(t.req, t.remembered); results > 0 {
		t.kept.Verdicts = &sample.Verdicts{Results: results, Failed: failed}
	}
	t.gathered = true
}

// complete adds what became of the turn, once.
func (t *exchange) complete(now time.Time) {
	if t.completed {
		return
	}
	t.completed = true
	x := t.kept
	x.Status, x.Outcome, x.LatencyMS = t.status, t.outcome(), ms(now.Sub(t.started))
	if !t.first.IsZero() {
		x.FirstMS = ms(t.first.Sub(t.started))
	}
	size := 0
	if rep := t.reply; rep != nil {
		x.Reply = sample.Reply{
			ID: rep.ID, Text: rep.Text, Finish: rep.Finish, Error: rep.Error,
			InputTokens: max(rep.Usage.Input, 0), CachedTokens: max(rep.Usage.Cached, 0), OutputTokens: max(rep.Usage.Output, 0),
		}
		if rep.Choices > 1 {
			x.Reply.Choices = rep.Choices
		}
		size += len(rep.Text)
		for _, c := range rep.Calls {
			x.Reply.Calls = append(x.Reply.Calls, sample.Call{ID: c.ID, Name: c.Name, Args: c.Args})
			size += len(c.Args)
		}
		x.Truncated = x.Truncated || rep.Cut
	}
	x.Truncated = x.Truncated || t.overflow
	t.size = max(t.size+int64(size), 1)
}

// offer hands the turn to the recorder. One for which there is no room is judged all the same: the
// session's row depends on it.
func (t *exchange) offer() {
	t.offered = true
	if !t.opts.Store.Offer(store.Turn{Exchange: t.kept, Begun: t.begun, Size: t.size, Signals: t.signals, Answered: t.answers}) {
		_ = t.opts.Store.OptedOut(t.kept, t.answers)
	}
}

// unoffered settles what the recorder will not judge: a request beside the conversation, one that
// is not captured, and one with which something went wrong, of which nothing is kept to be safe.
func (t *exchange) unoffered() {
	if !t.query.Learn || t.offered {
		return
	}
	main, captured := t.found.Side == "", t.set.cfg.Limits.CaptureBytes > 0
	t.ses.Lock()
	keep := main && !captured || !main && len(t.ses.OptOut.Turns) == 0
	if main {
		t.ses.Judged(t.number, !keep)
	}
	t.ses.Unlock()
	t.opts.Store.LetGo(t.w.id, keep)
}

// newItems copies the items that no earlier turn has shown, up to capture_limit.
func (t *exchange) newItems(x *sample.Exchange) (size int) {
	from := t.base
	if t.number <= 1 {
		from = 0
	} else if n := t.req.New(); n < from && t.req.End() == t.req.Len() { // the history was cut or rewritten: what follows the last reply is new
		from = n
	}
	if t.req.Delta || from > t.req.Len() {
		from = 0
	}
	x.NewFrom, x.Given = from, max(t.req.New()-from, 0)
	limit, end := int(t.set.cfg.Learning.CaptureLimit), from
	for ; end < t.req.Len(); end++ {
		n := len(t.req.Raw(end))
		if size+n > limit {
			x.Truncated = true
			break
		}
		size += n
	}
	if from == end {
		return 0
	}
	x.New = make([]json.RawMessage, 0, end-from)
	for room := make([]byte, 0, size); from < end; from++ {
		b := t.req.Raw(from)
		room = append(room, b...)
		x.New = append(x.New, json.RawMessage(room[len(room)-len(b):len(room):len(room)]))
	}
	return size
}
