package wire

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Cut is a range of Body that Splice leaves out. A Cut is inside of one string, and never splits an
// escape or a character.
type Cut struct{ From, To int }

// Passage is a decoded text that the agent sends before the first answer: the system prompt or one
// message, with all its text parts in one string.
type Passage struct {
	Role   Role // RoleSystem for instructions, system and developer messages, else RoleUser
	Text   string
	Joints []int // offsets in Text where another part begins
	pieces []piece
}

// piece is one part of a passage.
type piece struct {
	start int  // offset of the part in Passage.Text
	raw   span // inside of the string literal in the body
}

// Head returns the texts before the first answer of the model: instructions or system, and the system
// and user items at the start of the list. Only these texts hold rules files: a later copy in a tool
// result or in an answer is a quotation. The user items of a list that continues a conversation at the
// provider are later words, and left out. aider puts an example conversation before its read-only files, so
// its message with these files belongs to the head as well.
func (r *Request) Head() []Passage {
	var head []Passage
	if p, ok := r.passage(contentParts(r.Body, r.members.system)); ok {
		p.Role = RoleSystem
		head = append(head, p)
	}
	i := 0
	for ; i < len(r.scan.list); i++ {
		role := r.scan.list[i].role
		if role == RoleAssistant || role == RoleTool || len(r.resultsOf(i)) > 0 {
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
			if r.scan.list[i].role != RoleUser || len(r.resultsOf(i)) > 0 {
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

// readOnlyFiles begins aider's message with the files of --read.
const readOnlyFiles = "Here are some READ ONLY files, provided for your reference."

// passage joins the text parts of a content.
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
			p.Joints = append(p.Joints, n)
		}
		p.pieces = append(p.pieces, piece{start: n, raw: parts[i].text.inner()})
		texts, n = append(texts, t), n+len(t)
	}
	p.Text = strings.Join(texts, "")
	return p, n > 0
}

// Cuts returns the ranges of the body that hold the bytes [from, to) of the passage: one range for each
// part with such bytes.
func (r *Request) Cuts(p *Passage, from, to int) []Cut {
	var cuts []Cut
	for i, piece := range p.pieces {
		end := len(p.Text)
		if i+1 < len(p.pieces) {
			end = p.pieces[i+1].start
		}
		a, b := max(from, piece.start), min(to, end)
		if a >= b {
			continue
		}
		raw := piece.raw.of(r.Body)
		begin := rawLength(raw, a-piece.start)
		length := rawLength(raw[begin:], b-a)
		cuts = append(cuts, Cut{piece.raw.start + begin, piece.raw.start + begin + length})
	}
	return cuts
}

// rawLength returns the number of bytes at the start of raw, the inside of a string literal, that decode
// to the first n bytes of its text.
func rawLength(raw []byte, n int) int {
	at := 0
	for n > 0 {
		if raw[at] != '\\' {
			at, n = at+1, n-1
			continue
		}
		end := escapeEnd(raw, at+1)
		var buf [utf8.UTFMax]byte
		// A pair of surrogates is one character in two escapes.
		if pair := min(end+6, len(raw)); raw[at+1] == 'u' && pair == end+6 && raw[end] == '\\' && raw[end+1] == 'u' &&
			len(appendPlain(buf[:0], raw[at:pair])) == utf8.UTFMax && utf8.RuneCount(appendPlain(buf[:0], raw[at:pair])) == 1 {
			end = pair
		}
		n -= len(appendPlain(buf[:0], raw[at:end]))
		at = end
	}
	return at
}

// sorted returns the cuts in the order of the body, without overlaps.
func sorted(cuts []Cut) []Cut {
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

// appendWithout appends the bytes [from, to) of the body without the cuts, and returns the cuts that
// reach beyond to.
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

// HeadOf returns the head (see Request.Head) of a stored first turn. system is the system prompt outside
// of the list, nil for none; items are the items of the list.
func HeadOf(d Dialect, system []byte, items [][]byte) []Passage {
	if d == None {
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
