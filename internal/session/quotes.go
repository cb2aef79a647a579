package session

import (
	"slices"
	"sync"
	"time"

	"precept/internal/wire"
)

// Quotes knows what is said in the conversations that go on, so that a request about one of them
// is not taken for a conversation of its own: frameworks judge, summarise and remember by requests
// that no wording gives away, and that show what was asked beside what was answered in one text
// (docs/decisions/0010-side-calls-of-frameworks.md). It is bounded, forgets, and is safe for
// concurrent use.
type Quotes struct {
	mu    sync.Mutex
	talks recent[Scope, *talk]
}

// talk is what is known of one credential's conversations: those that work with tools, and chats.
// The one that was used last stands last.
type talk struct{ tooled, chats []*fingerprint }

// all are the conversations, those that work with tools first, the newest first among them.
func (t *talk) all(yield func(x *fingerprint) bool) {
	if t == nil {
		return
	}
	for _, list := range [...][]*fingerprint{t.tooled, t.chats} {
		for _, x := range slices.Backward(list) {
			if !yield(x) {
				return
			}
		}
	}
}

// NewQuotes makes an empty one.
func NewQuotes() *Quotes {
	return &Quotes{talks: newRecent[Scope, *talk](quoteScopes)}
}

// Asked takes note of a turn of a session. Of a conversation that is known only the items are
// looked at that are new; of another one (precept was started anew, or another replica served it)
// it takes what the request shows.
func (q *Quotes) Asked(sc Scope, id ID, req *wire.Request, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	x := q.find(sc, id, len(req.Tools) > 0)
	from := req.New()
	if x.at.IsZero() {
		if from = 0; !req.Delta {
			x.recall(req)
		}
	}
	words, results := newest(req, from)
	x.at, x.system = now, req.SystemHash
	if len(req.Tools) > 0 && x.hash != req.ToolsHash {
		x.tools, x.hash = shortNames(req.Tools), req.ToolsHash
	}
	if w := distinctive(words); w.text != "" {
		x.asked[1] = w
		if x.asked[0].text == "" {
			x.asked[0] = w
		}
	}
	for _, r := range results {
		x.say(r)
	}
}

// Answered takes note of a reply to a session of which a turn was noted.
func (q *Quotes) Answered(sc Scope, id ID, rep *wire.Reply) {
	q.mu.Lock()
	defer q.mu.Unlock()
	x := q.talks.of[sc.whose()].get(id)
	if x == nil {
		return
	}
	x.say(rep.Text)
	x.asks = nil
	for i := range rep.Calls[:min(len(rep.Calls), quoteCalls)] {
		x.asks = phrases(x.asks, rep.Calls[i].Args, len(x.asks)+quoteAsks)
	}
}

// AnsweredBeside takes note of a reply to a side call about a session: what is made of it may be
// the next side call.
func (q *Quotes) AnsweredBeside(sc Scope, id ID, rep *wire.Reply, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	x := q.talks.of[sc.whose()].get(id)
	if x == nil {
		return
	}
	x.beside, x.soon = phrases(nil, rep.Text, quoteSaid), now
	for i := range rep.Calls {
		x.beside = phrases(x.beside, rep.Calls[i].Args, quoteSaid)
	}
}

// About finds the conversation that a request is about which would begin one of its own. It has
// another system text than that one, and none of its tools. docs/decisions/0010 says what it must
// show.
func (q *Quotes) About(sc Scope, req *wire.Request, now time.Time) (about ID, ok bool) {
	if req.Delta {
		return about, false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	w := look{names: shortNames(req.Tools), bare: len(req.Tools) == 0, now: now}
	w.forced = len(req.Tools) > 0 && req.Forced()
	w.shaped = w.bare && req.Shaped()
	w.read(req)
	for x := range q.talks.of[sc.whose()].all {
		if x.system != req.SystemHash && now.Sub(x.at) < quoteLife && !share(w.names, x.tools) && w.about(x) {
			return x.id, true
		}
	}
	return about, false
}

// find gives the place of a conversation; the one that was used longest ago makes room. Lock it.
func (q *Quotes) find(sc Scope, id ID, tooled bool) *fingerprint {
	sc = sc.whose()
	if q.talks.of[sc] == nil {
		q.talks.put(sc, &talk{})
	}
	t := q.talks.of[sc]
	x := t.get(id)
	if x == nil {
		x = &fingerprint{id: id, tooled: tooled}
	}
	list := &t.chats
	if x.tooled {
		list = &t.tooled
	}
	*list = push(slices.DeleteFunc(*list, func(y *fingerprint) bool { return y == x }), x, quoteTalks)
	return x
}

// get is the conversation of that name, nil where it is not known.
func (t *talk) get(id ID) *fingerprint {
	for x := range t.all {
		if x.id == id {
			return x
		}
	}
	return nil
}

// callerText is how many bytes of a conversation's first words are searched.
const callerText = 4 << 10

// Caller finds the conversation that made the one which the request begins: its newest reply calls
// for something in words that are the first ones here, as a tool does that is an agent. sure is
// false where several ask for the same.
func (q *Quotes) Caller(sc Scope, req *wire.Request, now time.Time) (id ID, ok, sure bool) {
	words := task(req)
	if len(words) < quoteAlone {
		return id, false, false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for x := range q.talks.of[sc.whose()].all {
		if now.Sub(x.at) >= quoteLife || !shows(words, x.asks) {
			continue
		}
		if x.system == req.SystemHash && shows(words, x.asked[:]) {
			continue // the same agent was given the same task once more
		}
		if ok {
			return id, true, false
		}
		id, ok = x.id, true
	}
	return id, ok, ok
}

// task are the words with which a conversation begins, "" where something was answered already.
func task(req *wire.Request) string {
	for i := range min(req.Len(), maxFront) {
		if role := req.Role(i); role == wire.RoleAssistant || role == wire.RoleTool {
			return ""
		}
	}
	it, ok := opening(req)
	if !ok {
		return ""
	}
	return it.Words[:min(len(it.Words), callerText)]
}
