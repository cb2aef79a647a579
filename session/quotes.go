package session

import (
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"precept/wire"
)

// Quotes knows what is said in the conversations that go on, so that a request about one of them is
// told from a conversation of its own: frameworks judge, summarise and remember by requests that no
// wording gives away, and that show what was asked beside what was answered in one text
// (docs/decisions/0010-side-calls-of-frameworks.md). It is bounded, forgets, and is safe for
// concurrent use.
type Quotes struct {
	mu    sync.Mutex
	of    map[Scope]*talk
	order []Scope // in which they came; the oldest is forgotten
}

// The bounds of Quotes: conversations are remembered by scope, for as long as a pause may last.
const (
	quoteScopes = 512
	quoteTalks  = 32
	quoteSaid   = 6 // of what was answered
	quoteLife   = 30 * time.Minute
	quoteLeast  = 12 // bytes of what is looked for: less stands in any text
	quoteMost   = 80
	quoteText   = 256 << 10 // bytes of a request that are searched
	quoteLook   = 8         // items from the end in which the newest words and results are looked for
)

// talk is what is known of one credential's conversations.
type talk struct{ of []*quoted }

// quoted is what one conversation can be known by.
type quoted struct {
	id     ID
	system uint64
	at     time.Time // of its newest request
	asked  [2]string // what the user said first, and last
	said   []string  // what was answered, and what the tools gave; the newest last
}

// NewQuotes makes an empty one.
func NewQuotes() *Quotes { return &Quotes{of: map[Scope]*talk{}} }

// Asked takes note of a turn of a session that works with tools. Of a conversation that is known
// only the items are looked at that are new.
func (q *Quotes) Asked(sc Scope, id ID, req *wire.Request, now time.Time) {
	if len(req.Tools) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	x := q.find(sc, id)
	from := 0
	if !x.at.IsZero() {
		from = req.New()
	}
	words, results := newest(req, from)
	x.at, x.system = now, req.SystemHash
	if w := distinctive(words); w != "" {
		x.asked[1] = w
		if x.asked[0] == "" {
			x.asked[0] = w
		}
	}
	for _, r := range results {
		x.say(r)
	}
}

// Answered takes note of a reply to a session of which a turn was noted.
func (q *Quotes) Answered(sc Scope, id ID, text string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t := q.of[sc.whose()]; t != nil {
		for _, x := range t.of {
			if x.id == id {
				x.say(text)
			}
		}
	}
}

// About says whether a request without tools is about a conversation that goes on: one of its texts
// holds what the user said there and what was answered, under another system text than there.
func (q *Quotes) About(sc Scope, req *wire.Request, now time.Time) bool {
	if len(req.Tools) > 0 || req.Delta {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.of[sc.whose()]
	if t == nil {
		return false
	}
	room := quoteText
	for i := 0; i < req.Len() && room > 0; i++ {
		text := req.Item(i).Text
		text = text[:min(len(text), room)]
		room -= len(text)
		for _, x := range t.of {
			if x.system != req.SystemHash && now.Sub(x.at) < quoteLife && x.in(text) {
				return true
			}
		}
	}
	return false
}

// in says whether a text shows what was asked and what was answered.
func (x *quoted) in(text string) bool {
	return holdsAny(text, x.asked[:]) && holdsAny(text, x.said)
}

func holdsAny(text string, parts []string) bool {
	for _, p := range parts {
		if p != "" && strings.Contains(text, p) {
			return true
		}
	}
	return false
}

// say notes something that was answered.
func (x *quoted) say(text string) {
	w := distinctive(text)
	if w == "" {
		return
	}
	if len(x.said) == quoteSaid {
		x.said = append(x.said[:0], x.said[1:]...)
	}
	x.said = append(x.said, w)
}

// find gives the place of a conversation; the one that was used longest ago makes room. Lock it.
func (q *Quotes) find(sc Scope, id ID) *quoted {
	sc = sc.whose()
	t := q.of[sc]
	if t == nil {
		if len(q.order) == quoteScopes {
			delete(q.of, q.order[0])
			q.order = append(q.order[:0], q.order[1:]...)
		}
		t = &talk{}
		q.of[sc], q.order = t, append(q.order, sc)
	}
	for i, x := range t.of {
		if x.id == id {
			t.of = append(append(t.of[:i], t.of[i+1:]...), x)
			return x
		}
	}
	if len(t.of) == quoteTalks {
		t.of = append(t.of[:0], t.of[1:]...)
	}
	x := &quoted{id: id}
	t.of = append(t.of, x)
	return x
}

// whose is the scope without its run: a side call may not be told of it.
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

// distinctive is a part of a text that stands in a quotation of it as it is: of its first long
// line, up to what would be escaped. "" where it has none.
func distinctive(text string) string {
	text = text[:min(len(text), 4<<10)]
	for len(text) >= quoteLeast {
		n := 0
		for n < min(len(text), quoteMost) && !escaped[text[n]] {
			n++
		}
		end := n
		for end < len(text) && end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		if part := strings.TrimSpace(text[:end]); len(part) >= quoteLeast {
			return strings.Clone(part)
		}
		text = text[min(n+1, len(text)):]
	}
	return ""
}

// escaped are the characters that are written otherwise in JSON, in markup or in a template.
var escaped = func() (t [256]bool) {
	for c := range byte(' ') {
		t[c] = true
	}
	for _, c := range []byte("\"\\<>&'`{}") {
		t[c] = true
	}
	return t
}()
