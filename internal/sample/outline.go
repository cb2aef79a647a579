package sample

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"precept/internal/wire"
)

// outline is the part of an exchange that Build reads, encoded: some hundred bytes without pointers.
type outline struct {
	shared string // fields that most exchanges of a session have in common
	own    []byte // the other fields
	answer string // text of the reply
	turn   int

	words   bool // the items have words of a person
	failed  bool // a result is an error
	late    bool // a result that is an error has its call in an earlier exchange
	textual bool // own has the texts of all results; otherwise of no result
	results bool // the items have results
}

// Read notes the content of the new items, so that Outline does not parse the items. items are the items
// of New as the turn has decoded them. Items whose content may depend on earlier items of the list are not
// noted.
func (e *Exchange) Read(items []*wire.Item) {
	for _, it := range items {
		if it.Role == wire.RoleUser && it.HasText && (len(it.Results) == 0 || it.Results[0].InUserText) {
			return
		}
	}
	e.said = e.say(items, false)
}

// Outline makes the outline of a redacted, complete exchange for Outlines. failing judges the results that
// the turn did not judge. texts reports that an earlier result of the session is an error: only then do
// samples contain texts of later results. failed reports that a result of the exchange is an error.
//
// An exchange gets no outline if the content of its items may depend on earlier exchanges. Closing then
// reads the session from the store.
func (e *Exchange) Outline(failing Failing, texts bool) (failed bool) {
	first := e.Turn == 1
	said := e.said
	if said == nil {
		items := e.items(nil)
		if !first && !standAlone(items) {
			return false
		}
		said = e.say(items, first)
	}
	if e.Outcome != Complete || e.At.IsZero() || !said.judge(failing, e.Turn) {
		return said.fails()
	}
	o := &outline{answer: cut(strings.TrimSpace(e.Reply.Text), textBytes), turn: e.Turn, words: said.words != "", failed: said.fails()}
	o.textual = texts || o.failed
	o.late = said.failsLate()
	o.results = slices.ContainsFunc(said.entries, func(n entry) bool { return n.role == entryResult })
	var w, shared fieldWriter
	for _, text := range [...]string{e.Agent, e.SessionName, e.Run, e.Dialect, e.Model, e.Config} {
		shared.text(text)
	}
	e.writeOwn(&w, said, o.textual)
	if o.shared, o.own = string(shared.b), w.b; w.invalid || shared.invalid || !utf8.ValidString(e.Reply.Text) {
		return o.failed // the store has other texts: JSON replaces bytes that are not UTF-8
	}
	e.outline = o
	return o.failed
}

// standAlone reports whether items of a later exchange have the same content without the reply before.
func standAlone(items []*wire.Item) bool {
	users := 0
	for _, it := range items {
		if it.Role == wire.RoleUser {
			users++
		}
		if slices.ContainsFunc(it.Results, func(r wire.Result) bool { return r.InUserText }) {
			return false
		}
	}
	return users <= 1
}

// judge judges the results that the turn did not judge. ok is false for such results of a later exchange,
// because their calls are in earlier exchanges.
func (s *said) judge(failing Failing, turn int) (ok bool) {
	if !slices.ContainsFunc(s.entries, func(n entry) bool { return n.role == entryResult && n.verdict == unjudged }) {
		return true
	}
	if turn > 1 {
		return false
	}
	h := &history{Session: &Session{Failing: failing}, newest: map[string]int{}}
	for i := range s.entries {
		switch n := &s.entries[i]; n.role {
		case EventCall:
			h.addCall(n.call, turn)
		case entryResult:
			if call := h.addResult(n); call != nil {
				n.verdict = verdictOf(call.failed)
			}
		}
	}
	return true
}

// fails reports whether a result is an error.
func (s *said) fails() bool {
	return slices.ContainsFunc(s.entries, func(n entry) bool { return n.verdict == failed })
}

// failsLate reports whether the call of a result that is an error is not among the entries.
func (s *said) failsLate() bool {
	return slices.ContainsFunc(s.entries, func(r entry) bool {
		return r.verdict == failed &&
			!slices.ContainsFunc(s.entries, func(c entry) bool { return c.role == EventCall && c.call.ID == r.call.ID })
	})
}

// Outlines holds the outlines of the exchanges of an open session, in the order of the turns. The zero
// value holds none.
type Outlines struct {
	data    []byte // for each exchange: shared, empty if equal to the exchange before; own; answer
	shared  string
	turn    int
	count   int
	answer  int  // offset in data of the last answer
	failed  bool // a result is an error
	dropped bool // results have no texts
}

// Len returns the number of exchanges.
func (o *Outlines) Len() int { return o.count }

// Size returns the number of bytes in memory.
func (o *Outlines) Size() int { return cap(o.data) + len(o.shared) }

// Add adds the outline of an exchange. A known exchange is not added again. ok is false if the exchange has
// no outline, or does not continue the session: Build then needs the stored exchanges.
func (o *Outlines) Add(e *Exchange) (ok bool) {
	n := e.outline
	switch {
	case n == nil:
		return false
	case n.turn <= o.turn:
		return o.has(e.ID)
	case o.failed && n.results && !n.textual, o.dropped && n.late:
		return false // the samples need the text of a result that is not in the outlines
	}
	w := fieldWriter{b: o.data}
	if o.count > 0 && !n.words && n.answer != "" { // samples contain the last answer to the words
		w.b = w.b[:o.answer]
		w.text("")
	}
	if n.shared == o.shared {
		w.text("")
	} else {
		w.text(n.shared)
	}
	w.b = append(w.b, n.own...)
	o.answer = len(w.b)
	w.text(n.answer)
	o.data, o.shared, o.turn = w.b, n.shared, n.turn
	o.count++
	o.failed, o.dropped = o.failed || n.failed, o.dropped || n.results && !n.textual
	return true
}

// has reports whether an exchange was added.
func (o *Outlines) has(id string) bool {
	return slices.ContainsFunc(o.Exchanges("", ""), func(e Exchange) bool { return e.ID == id })
}

// Exchanges returns the exchanges of a session, with the fields that Build reads, by turn.
func (o *Outlines) Exchanges(tenant, session string) []Exchange {
	list := make([]Exchange, o.count)
	r := fieldReader{rest: string(o.data)}
	var shared Exchange
	for i := range list {
		if text := r.text(); text != "" {
			s := fieldReader{rest: text}
			shared = Exchange{Tenant: tenant, Session: session, Outcome: Complete}
			for _, field := range [...]*string{&shared.Agent, &shared.SessionName, &shared.Run, &shared.Dialect, &shared.Model, &shared.Config} {
				*field = s.text()
			}
		}
		list[i] = shared
		list[i].readOwn(&r)
		list[i].Reply.Text = r.text()
	}
	return list
}

// writeOwn writes the fields that are not shared. texts reports that the texts of results are written.
func (e *Exchange) writeOwn(w *fieldWriter, s *said, texts bool) {
	w.b = make([]byte, 0, 256)
	w.text(e.ID)
	for _, n := range [...]int{
		e.Turn, e.Loops, e.Reply.InputTokens, e.Reply.CachedTokens, e.Reply.OutputTokens, e.Reply.Choices, toInt(e.Truncated), toInt(s.worked),
	} {
		w.number(int64(n))
	}
	w.number(e.At.UnixNano())
	w.float(finite(e.LatencyMS))
	w.text(e.Reply.Error)
	w.number(int64(len(e.Lessons)))
	for i := range e.Lessons {
		l := &e.Lessons[i]
		w.text(l.Slug)
		w.text(l.Arm)
		w.text(l.State)
		w.float(l.Propensity)
	}
	w.number(int64(len(e.Reply.Calls)))
	for _, c := range e.calls() {
		w.call(c)
	}
	w.text(cut(s.words, textBytes))
	for i := range s.entries {
		switch n := &s.entries[i]; n.role {
		case EventCall:
			w.number(callField)
			w.call(n.call)
		case entryResult:
			w.number(resultField)
			w.text(n.call.ID)
			w.number(int64(n.isError))
			w.number(int64(n.verdict))
			if texts {
				w.text(cut(n.text, summaryBytes))
			} else {
				w.text("")
			}
		}
	}
	w.number(endField)
}

// Marks before the entries of an exchange, and after the last entry.
const (
	endField = iota
	callField
	resultField
)

// readOwn reads the fields that writeOwn has written.
func (e *Exchange) readOwn(r *fieldReader) {
	e.ID = r.text()
	s := &said{}
	for _, n := range [...]*int{&e.Turn, &e.Loops, &e.Reply.InputTokens, &e.Reply.CachedTokens, &e.Reply.OutputTokens, &e.Reply.Choices} {
		*n = int(r.number())
	}
	e.Truncated, s.worked = r.number() != 0, r.number() != 0
	e.At = time.Unix(0, r.number()).UTC()
	e.LatencyMS = r.float()
	e.Reply.Error = r.text()
	for range r.number() {
		e.Lessons = append(e.Lessons, Lesson{r.text(), r.text(), r.text(), r.float()})
	}
	for range r.number() {
		e.Reply.Calls = append(e.Reply.Calls, r.call())
	}
	s.words = r.text()
	for {
		switch r.number() {
		case callField:
			s.entries = append(s.entries, entry{role: EventCall, call: r.call()})
		case resultField:
			n := entry{role: entryResult, call: Call{ID: r.text()}, isError: int8(r.number()), verdict: verdict(r.number())} //nolint:gosec // as written
			n.text = r.text()
			s.entries = append(s.entries, n)
		default:
			e.said = s
			return
		}
	}
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// fieldWriter appends fields to b.
type fieldWriter struct {
	b       []byte
	invalid bool // a text is not UTF-8
}

func (w *fieldWriter) text(s string) {
	w.invalid = w.invalid || !utf8.ValidString(s)
	w.b = append(binary.AppendUvarint(w.b, uint64(len(s))), s...)
}

func (w *fieldWriter) number(n int64) { w.b = binary.AppendVarint(w.b, n) }
func (w *fieldWriter) float(v float64) {
	w.b = binary.LittleEndian.AppendUint64(w.b, math.Float64bits(v))
}

func (w *fieldWriter) call(c Call) {
	w.text(c.ID)
	w.text(c.Name)
	w.text(c.Args)
}

// fieldReader reads the fields of a fieldWriter. The texts are parts of rest.
type fieldReader struct{ rest string }

func (r *fieldReader) text() string {
	n, rest := cutNumber(r.rest, binary.Uvarint)
	r.rest = rest[n:]
	return rest[:n]
}

func (r *fieldReader) number() int64 {
	n, rest := cutNumber(r.rest, binary.Varint)
	r.rest = rest
	return n
}

// cutNumber splits a number off s.
func cutNumber[N int64 | uint64](s string, read func([]byte) (N, int)) (n N, rest string) {
	var head [binary.MaxVarintLen64]byte
	n, size := read(head[:copy(head[:], s)])
	return n, s[size:]
}

func (r *fieldReader) float() float64 {
	var head [8]byte
	copy(head[:], r.rest)
	r.rest = r.rest[len(head):]
	return math.Float64frombits(binary.LittleEndian.Uint64(head[:]))
}

func (r *fieldReader) call() Call { return Call{r.text(), r.text(), r.text()} }
