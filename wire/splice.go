package wire

import (
	"bytes"
	"fmt"
	"slices"
	"sort"
)

// Edit puts Text at one anchor: before the user's own words, or at the top of that tool result's
// content.
type Edit struct {
	Item  int // index in the list, or System
	Block int // messages: index of the tool_result block in content (elsewhere 0: the result); -1: the user's words
	Text  string
}

// form is the shape that an insertion takes.
type form uint8

const (
	inString   form = iota // inside a string, at its beginning
	beforePart             // a new text part before another part
	firstPart              // a new text part at the beginning of an array
	newMember              // a member or message of its own, where there is none
	atEnd                  // inside a string, at its end
	lastPart               // a new text part at the end of an array
)

// place is where text goes, and in which shape.
type place struct {
	at    int
	form  form
	typ   string // beforePart, firstPart, lastPart: the type of the new part
	empty bool   // firstPart, lastPart: the array has nothing else
	taken bool   // newMember: precept has been here

	head, tail string // newMember: what stands around the text
}

// wordsPlace is the place before the user's own words.
func wordsPlace(b []byte, parts []part, d Dialect, last bool) (place, bool) {
	p, ok := wordsPart(b, parts, last)
	if !ok {
		return place{}, false
	}
	if p.whole {
		return place{at: p.at.start + 1, form: inString}, true
	}
	return place{at: p.at.start, form: beforePart, typ: partType(p.typ, d)}, true
}

// resultPlace is the place at the top of a tool result's content or output.
func resultPlace(b []byte, content span, d Dialect) (place, bool) {
	switch kindAt(b, content) {
	case '"':
		return place{at: content.start + 1, form: inString}, true
	case '[':
		p := place{at: content.start + 1, form: firstPart, typ: d.partType(), empty: true}
		for e := range elements(b, content) {
			p.empty = false
			if t := partAt(b, e); t.kind == textPart {
				p.typ = partType(t.typ, d)
				break
			}
		}
		return p, true
	}
	return place{}, false
}

// partType is the type of a new part beside one of type typ: some servers know one spelling only.
func partType(typ string, d Dialect) string {
	if typ == "text" || typ == "input_text" {
		return typ
	}
	return d.partType()
}

// placeOf finds the place of an edit; last is passed to wordsPart.
func (r *Request) placeOf(item, block int, last bool) (place, bool) {
	if item == System {
		return r.systemPlace()
	}
	if item < 0 || item >= len(r.list) {
		return place{}, false
	}
	role, at := r.list[item].role, r.at(item)
	if role == RoleUser && block >= 0 {
		if p, ok := r.writtenPlace(item, block); ok || r.Dialect != Messages {
			return p, ok
		}
	}
	if r.Dialect != Messages && (block < 0) != (role == RoleUser) {
		return place{}, false
	}
	switch r.Dialect {
	case Chat:
		return chatPlace(r.Body, role, at, last)
	case Responses:
		return responsesPlace(r.Body, role, at, last)
	case Messages:
		return r.messagesPlace(item, block, last)
	case None:
	}
	return place{}, false
}

// group is the texts that go to one place.
type group struct {
	item, block int
	texts       []string
}

// grouped collects the edits by place, each place's texts in the order given; empty texts are
// dropped.
func grouped(edits []Edit) []group {
	var groups []group
	for _, e := range edits {
		if e.Text == "" {
			continue
		}
		i := slices.IndexFunc(groups, func(g group) bool { return g.item == e.Item && (g.block == e.Block || e.Item == System) })
		if i < 0 {
			i = len(groups)
			groups = append(groups, group{item: e.Item, block: e.Block})
		}
		groups[i].texts = append(groups[i].texts, e.Text)
	}
	return groups
}

// Splice appends the body with the edits applied to dst, which must not overlap Body. Texts for one
// place stand in the order given. When an edit has no place, dst comes back as it was, with an
// error. The original comes back with Strip.
func (r *Request) Splice(dst []byte, edits []Edit) ([]byte, error) {
	groups := grouped(edits)
	type spot struct {
		place
		texts []string
	}
	spots, size := make([]spot, 0, len(groups)), len(r.Body)
	for _, g := range groups {
		p, ok := r.placeOf(g.item, g.block, false)
		if !ok {
			return dst, fmt.Errorf("splice: no place for text in item %d, block %d of %s", g.item, g.block, r.Dialect)
		}
		for _, t := range g.texts {
			size += len(t) + len(t)/16 + 48
		}
		spots = append(spots, spot{p, g.texts})
	}
	sort.SliceStable(spots, func(i, j int) bool { return spots[i].at < spots[j].at })
	dst = slices.Grow(dst, size)
	from := 0
	for _, s := range spots {
		dst = append(dst, r.Body[from:s.at]...)
		dst = s.appendTo(dst, s.texts)
		from = s.at
	}
	return append(dst, r.Body[from:]...), nil
}

// appendTo appends the bytes that bring the texts to the place.
func (p *place) appendTo(dst []byte, texts []string) []byte {
	switch p.form {
	case inString, atEnd:
		return appendAll(dst, texts)
	case newMember:
		return append(appendAll(append(dst, p.head...), texts), p.tail...)
	case beforePart, firstPart, lastPart:
		for i, t := range texts {
			if p.form == lastPart && (!p.empty || i > 0) {
				dst = append(dst, ',')
			}
			dst = append(append(append(dst, `{"type":"`...), p.typ...), `","text":"`...)
			dst = append(appendEscaped(dst, t), `"}`...)
			if p.form != lastPart && (!p.empty || i < len(texts)-1) {
				dst = append(dst, ',')
			}
		}
	}
	return dst
}

func appendAll(dst []byte, texts []string) []byte {
	for _, t := range texts {
		dst = appendEscaped(dst, t)
	}
	return dst
}

// Strip takes the texts that these edits put into a body out again: the inverse of Splice.
func Strip(d Dialect, body []byte, edits []Edit) ([]byte, error) {
	groups := grouped(edits)
	// A system message that was made counts as an item. Without it the indices of the others are
	// right again.
	if i := slices.IndexFunc(groups, func(g group) bool { return g.item == System }); i >= 0 {
		rest, err := strip(d, body, groups[i:i+1])
		if err != nil {
			return nil, err
		}
		return strip(d, rest, slices.Delete(groups, i, i+1))
	}
	return strip(d, body, groups)
}

func strip(d Dialect, body []byte, groups []group) ([]byte, error) {
	if len(groups) == 0 {
		return bytes.Clone(body), nil
	}
	r, err := Parse(d, body)
	if err != nil {
		return nil, fmt.Errorf("strip: %w", err)
	}
	cuts := make([]span, 0, len(groups))
	for _, g := range groups {
		cut, ok := r.inserted(g)
		if !ok {
			return nil, fmt.Errorf("strip: the text is not in item %d, block %d of %s", g.item, g.block, d)
		}
		cuts = append(cuts, cut)
	}
	slices.SortFunc(cuts, func(a, b span) int { return a.start - b.start })
	out, from := make([]byte, 0, len(body)), 0
	for _, c := range cuts {
		out = append(out, body[from:c.start]...)
		from = c.end
	}
	return append(out, body[from:]...), nil
}

// inserted finds the bytes that a group of edits put into the body. The words may have been looked
// for in vain when the text was put in, and the text itself may read like words: then it stands
// before the last text part.
func (r *Request) inserted(g group) (span, bool) {
	for _, last := range []bool{false, true} {
		p, ok := r.placeOf(g.item, g.block, last)
		if !ok && !p.taken {
			return span{}, false
		}
		text := p.appendTo(nil, g.texts)
		cut := span{p.at, p.at + len(text)}
		if p.form == beforePart || p.form == atEnd || p.form == lastPart {
			cut = span{p.at - len(text), p.at}
		}
		if r.holds(cut, text) {
			return cut, true
		}
		// Into an empty array the part went without a comma.
		if cut.end--; p.form == firstPart && r.holds(cut, text[:len(text)-1]) && r.Body[blankEnd(r.Body, cut.end)] == ']' {
			return cut, true
		}
		cut = span{cut.start + 1, cut.end + 1}
		if p.form == lastPart && r.holds(cut, text[1:]) && r.Body[cut.start-1] == '[' {
			return cut, true
		}
	}
	return span{}, false
}

// holds says whether exactly this text stands at the span.
func (r *Request) holds(at span, text []byte) bool {
	return at.start >= 0 && at.end <= len(r.Body) && bytes.Equal(at.of(r.Body), text)
}
