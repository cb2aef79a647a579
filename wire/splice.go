package wire

import (
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

	head, tail string // newMember: what stands around the text
}

// wordsPlace is the place before the user's own words: the last text part that has some, or, where
// none has, the last text part. Tool results stay in front: the Messages API wants them first.
func wordsPlace(b []byte, parts []part, d Dialect) (place, bool) {
	at := -1
	for i := len(parts) - 1; i >= 0 && parts[i].kind != resultPart; i-- {
		if parts[i].kind != textPart {
			continue
		}
		words := ownWords(text(b, parts[i].text), nil) != ""
		if words || at < 0 {
			at = i
		}
		if words {
			break
		}
	}
	switch {
	case at < 0:
		return place{}, false
	case parts[at].whole:
		return place{at: parts[at].at.start + 1, form: inString}, true
	}
	return place{at: parts[at].at.start, form: beforePart, typ: partType(parts[at].typ, d)}, true
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

// takesText says whether resultPlace has a place in the content.
func takesText(b []byte, content span) bool {
	kind := kindAt(b, content)
	return kind == '"' || kind == '['
}

// partType is the type of a new part beside one of type typ: some servers know one spelling only.
func partType(typ string, d Dialect) string {
	if typ == "text" || typ == "input_text" {
		return typ
	}
	return d.partType()
}

// placeOf finds the place of an edit. ok is false for a newMember, too, where precept has made one
// before.
func (r *Request) placeOf(item, block int) (place, bool) {
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
		return chatPlace(r.Body, role, at)
	case Responses:
		return responsesPlace(r.Body, role, at)
	case Messages:
		return r.messagesPlace(item, block)
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
		i := slices.IndexFunc(groups, func(g group) bool { return g.item == e.Item && g.block == e.Block })
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
// error.
func (r *Request) Splice(dst []byte, edits []Edit) ([]byte, error) {
	groups := grouped(edits)
	type spot struct {
		place
		texts []string
	}
	spots, size := make([]spot, 0, len(groups)), len(r.Body)
	for _, g := range groups {
		p, ok := r.placeOf(g.item, g.block)
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
