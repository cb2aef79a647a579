package wire

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Cut is a range in Body that Splice leaves out. A Cut lies within one string literal, and never splits an escape or a
// character.
type Cut struct{ From, To int }

// Passage is the system prompt's text, or the text of one message before the first answer.
type Passage struct {
	Role       Role   // RoleSystem or RoleUser
	Text       string // all text parts, without a separator
	Boundaries []int  // offsets in Text where the second and later parts begin
	parts      []passagePart
}

type passagePart struct {
	start int  // offset in Passage.Text
	raw   span // string literal in the body, without quotes
}

// Head returns the texts before the model's first answer: the "system" or "instructions" member, and the system and
// user messages. Agents put rules files, such as AGENTS.md, only there.
//
// If the provider stores the beginning of the conversation, Head omits user messages, because they are not at the
// beginning. Head includes aider's message with the files from the --read option, although an example conversation
// precedes this message.
func (r *Request) Head() []Passage {
	var head []Passage
	if p, ok := r.passage(contentParts(r.Body, r.members.system)); ok {
		p.Role = RoleSystem
		head = append(head, p)
	}
	i := 0
	for ; i < len(r.scan.list); i++ {
		role := r.scan.list[i].role
		if role == RoleAssistant || role == RoleTool || len(r.resultsInItem(i)) > 0 {
			break
		}
		if role != RoleSystem && (role != RoleUser || r.Delta) {
			continue
		}
		if p, ok := r.passage(contentParts(r.Body, r.content(i))); ok {
			p.Role = role
			head = append(head, p)
		}
	}
	if !r.Delta && bytes.Contains(r.Body, []byte(readOnlyFiles)) {
		for ; i < len(r.scan.list); i++ {
			if r.scan.list[i].role != RoleUser || len(r.resultsInItem(i)) > 0 {
				continue
			}
			if p, ok := r.passage(contentParts(r.Body, r.content(i))); ok && strings.HasPrefix(p.Text, readOnlyFiles) {
				p.Role = RoleUser
				return append(head, p)
			}
		}
	}
	return head
}

const readOnlyFiles = "Here are some READ ONLY files, provided for your reference."

func (r *Request) passage(parts []part) (p Passage, ok bool) {
	var texts []string
	n := 0
	for i := range parts {
		if parts[i].kind != textPart {
			continue
		}
		t := text(r.Body, parts[i].text)
		if t == "" {
			continue
		}
		if n > 0 {
			p.Boundaries = append(p.Boundaries, n)
		}
		p.parts = append(p.parts, passagePart{start: n, raw: parts[i].text.inner()})
		texts, n = append(texts, t), n+len(t)
	}
	p.Text = strings.Join(texts, "")
	return p, n > 0
}

// Cuts returns the body ranges for p.Text[from:to], one per part.
func (r *Request) Cuts(p *Passage, from, to int) []Cut {
	var cuts []Cut
	for i, x := range p.parts {
		end := len(p.Text)
		if i+1 < len(p.parts) {
			end = p.parts[i+1].start
		}
		a, b := max(from, x.start), min(to, end)
		if a >= b {
			continue
		}
		raw := x.raw.of(r.Body)
		begin := rawLength(raw, a-x.start)
		length := rawLength(raw[begin:], b-a)
		cuts = append(cuts, Cut{x.raw.start + begin, x.raw.start + begin + length})
	}
	return cuts
}

// rawLength returns how many bytes at the start of raw, the inside of a string literal, decode to n bytes of text.
func rawLength(raw []byte, n int) int {
	at := 0
	for n > 0 {
		if raw[at] != '\\' {
			at, n = at+1, n-1
			continue
		}
		end := escapeEnd(raw, at+1)
		var buf [utf8.UTFMax]byte
		// A surrogate pair is one character in two escapes.
		if pair := min(end+6, len(raw)); raw[at+1] == 'u' && pair == end+6 && raw[end] == '\\' && raw[end+1] == 'u' &&
			len(appendUnescaped(buf[:0], raw[at:pair])) == utf8.UTFMax && utf8.RuneCount(appendUnescaped(buf[:0], raw[at:pair])) == 1 {
			end = pair
		}
		n -= len(appendUnescaped(buf[:0], raw[at:end]))
		at = end
	}
	return at
}

func sortedCuts(cuts []Cut) []Cut {
	if len(cuts) == 0 {
		return nil
	}
	cuts = slices.Clone(cuts)
	slices.SortFunc(cuts, func(a, b Cut) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	out := cuts[:1]
	for _, c := range cuts[1:] {
		if last := &out[len(out)-1]; c.From <= last.To {
			last.To = max(last.To, c.To)
			continue
		}
		out = append(out, c)
	}
	return out
}

// appendWithout appends Body[from:to] without the cuts, and returns the cuts that extend beyond Body[:to].
func (r *Request) appendWithout(dst []byte, from, to int, cuts []Cut) ([]byte, []Cut) {
	for len(cuts) > 0 && cuts[0].From < to {
		if cuts[0].From > from {
			dst = append(dst, r.Body[from:cuts[0].From]...)
		}
		from = max(from, cuts[0].To)
		if cuts[0].To > to {
			return dst, cuts
		}
		cuts = cuts[1:]
	}
	if from < to {
		dst = append(dst, r.Body[from:to]...)
	}
	return dst, cuts
}

// StoredHead is Request.Head for a stored first turn. system is the JSON of the "system" or "instructions" member, or
// nil.
func StoredHead(d Dialect, system []byte, items [][]byte) []Passage {
	if d == NoDialect {
		return nil
	}
	body := []byte("{")
	if len(system) > 0 {
		key := "instructions"
		if d == Messages {
			key = "system"
		}
		body = append(append(append(append(body, '"'), key...), `":`...), system...)
		body = append(body, ',')
	}
	body = append(append(append(body, '"'), d.listKey()...), `":[`...)
	for i, item := range items {
		if i > 0 {
			body = append(body, ',')
		}
		body = appendItem(body, item)
	}
	r, err := Parse(d, append(body, "]}"...))
	if err != nil {
		return nil
	}
	return r.Head()
}
