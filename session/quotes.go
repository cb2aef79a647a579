package session

import (
	"iter"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"precept/wire"
)

// Quotes knows what is said in the conversations that go on, so that a request about one of them
// is not taken for a conversation of its own: frameworks judge, summarise and remember by requests
// that no wording gives away, and that show what was asked beside what was answered in one text
// (docs/decisions/0010-side-calls-of-frameworks.md). It is bounded, forgets, and is safe for
// concurrent use.
type Quotes struct {
	recent[Scope, *talk]

	mu sync.Mutex
}

// The bounds of Quotes: conversations are remembered by scope, for as long as a pause may last.
const (
	quoteScopes = 512
	quoteTalks  = 64 // of those that work with tools, and as many of the others
	quoteSaid   = 6  // of what was answered
	quoteCalls  = 8  // of a reply,
	quoteAsks   = 4  // and of what one of them asks
	quoteLife   = 30 * time.Minute
	quoteSoon   = 2 * time.Minute // in which the next side call follows one
	quoteLeast  = 12              // bytes of what is looked for: less stands in any text
	quoteAlone  = 24              // and of what is looked for without anything beside it
	quoteMost   = 80
	quoteText   = 128 << 10 // bytes of a request that are searched
	quoteLook   = 8         // items from the end in which the newest words and results are looked for
	quoteBehind = 80        // bytes that close a quotation,
	quoteWords  = 4         // and fewer words
)

// talk is what is known of one credential's conversations: those that work with tools, and chats.
// The one that was used last stands last.
type talk struct{ tooled, chats []*quoted }

// all are the conversations, those that work with tools first, the newest first among them.
func (t *talk) all(yield func(x *quoted) bool) {
	if t == nil {
		return
	}
	for _, list := range [...][]*quoted{t.tooled, t.chats} {
		for _, x := range slices.Backward(list) {
			if !yield(x) {
				return
			}
		}
	}
}

// quoted is what one conversation can be known by.
type quoted struct {
	id     ID
	tooled bool // it began with tools
	system uint64
	tools  []uint32
	hash   uint64    // of their names
	at     time.Time // of its newest request
	asked  [2]part   // what the user said first, and last
	said   []part    // what was answered, and what the tools gave; the newest last
	asks   []part    // what the calls of its newest reply ask, in words
	beside []part    // what was answered in the newest side call about it,
	soon   time.Time // and when
}

// part is a piece of a text that stands in a quotation of it as it is.
type part struct {
	text string
	rest int // how long the text is from there on
}

// NewQuotes makes an empty one.
func NewQuotes() *Quotes {
	return &Quotes{recent: newRecent[Scope, *talk](quoteScopes)}
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

// recall takes what was said before out of a history.
func (x *quoted) recall(req *wire.Request) {
	if it, ok := opening(req); ok {
		x.asked[0] = distinctive(it.Words)
	}
	for i := max(0, req.Len()-maxLook); i < req.Len(); i++ {
		if req.Role(i) == wire.RoleAssistant {
			x.say(req.Item(i).Text)
		}
	}
}

// Answered takes note of a reply to a session of which a turn was noted.
func (q *Quotes) Answered(sc Scope, id ID, rep *wire.Reply) {
	q.mu.Lock()
	defer q.mu.Unlock()
	x := q.of[sc.whose()].get(id)
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
	x := q.of[sc.whose()].get(id)
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
	for x := range q.of[sc.whose()].all {
		if x.system != req.SystemHash && now.Sub(x.at) < quoteLife && !share(w.names, x.tools) && w.about(x) {
			return x.id, true
		}
	}
	return about, false
}

// find gives the place of a conversation; the one that was used longest ago makes room. Lock it.
func (q *Quotes) find(sc Scope, id ID, tooled bool) *quoted {
	sc = sc.whose()
	if q.of[sc] == nil {
		q.put(sc, &talk{})
	}
	t := q.of[sc]
	x := t.get(id)
	if x == nil {
		x = &quoted{id: id, tooled: tooled}
	}
	list := &t.chats
	if x.tooled {
		list = &t.tooled
	}
	*list = push(slices.DeleteFunc(*list, func(y *quoted) bool { return y == x }), x, quoteTalks)
	return x
}

// get is the conversation of that name, nil where it is not known.
func (t *talk) get(id ID) *quoted {
	for x := range t.all {
		if x.id == id {
			return x
		}
	}
	return nil
}

// whose is the scope without its run: a side call may not name it.
func (sc Scope) whose() Scope {
	sc.Run = ""
	return sc
}

// newest finds in the items from one on what the user said last, and what the tools gave since.
func newest(req *wire.Request, from int) (words string, results []string) {
	for i := req.Len() - 1; i >= max(from, req.Len()-quoteLook); i-- {
		it := req.Item(i)
		for _, r := range it.Results {
			if len(results) < 2 {
				results = append(results, r.Text)
			}
		}
		if it.Role == wire.RoleUser && it.Words != "" {
			return it.Words, results
		}
	}
	return "", results
}

// say notes something that was answered.
func (x *quoted) say(text string) {
	w := distinctive(text)
	if w.text == "" {
		return
	}
	x.said = push(x.said, w, quoteSaid)
}

// distinctive is the first long piece of a text that stands in a quotation of it as it is: of a
// line, up to what would be escaped. It is empty where the text has none.
func distinctive(text string) part {
	for p, at := range pieces(text) {
		return part{strings.Clone(p), len(text) - at}
	}
	return part{}
}

// phrases appends the first long pieces of a text that are sentences: names of fields have no
// spaces.
func phrases(to []part, text string, most int) []part {
	for p := range pieces(text) {
		if len(to) >= most {
			break
		}
		if len(p) >= quoteAlone && strings.Contains(p, " ") {
			to = append(to, part{text: strings.Clone(p)})
		}
	}
	return to
}

// pieces are what stands between what would be escaped, as far as it is looked for, with its place.
func pieces(text string) iter.Seq2[string, int] {
	text = text[:min(len(text), 4<<10)]
	return func(yield func(string, int) bool) {
		for from := 0; len(text)-from >= quoteLeast; {
			n := from
			for n < min(len(text), from+quoteMost) && !escaped(text[n]) {
				n++
			}
			end := n
			for end < len(text) && end > from && !utf8.RuneStart(text[end]) {
				end--
			}
			if p := strings.TrimSpace(text[from:end]); len(p) >= quoteLeast && !yield(p, from) {
				return
			}
			from = n + 1
		}
	}
}

// escaped says that a character is written otherwise in JSON, in markup or in a template.
func escaped(c byte) bool { return c < ' ' || strings.IndexByte("\"\\<>&'`{}", c) >= 0 }
