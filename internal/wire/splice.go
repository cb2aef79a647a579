package wire

import (
	"cmp"
	"fmt"
	"slices"
)

// Edit inserts Text before the user's own words, at the top of a tool result, or at the end of the system prompt.
type Edit struct {
	Item  int // index, or System
	Block int // -1 for the user's words; otherwise the tool result's index in the content (messages), or 0
	Text  string
}

type form uint8

const (
	insideString  form = iota // at the beginning of a string
	beforePart                // new text part before an existing part
	firstPart                 // new text part that begins an array
	createdMember             // new member in an object, or new message
	atEnd                     // at the end of a string
	lastPart                  // new text part that ends an array
	replacedNull              // string in place of null content
)

// A null content becomes the string "TEXT\u000anull". Clients write a line feed as \n, so the escape \u000a shows that
// precept replaced a null.
const (
	nullMark = `\u000a`
	nullText = "null"
)

// place is where Splice inserts a text, and in which form.
type place struct {
	offset int
	form   form
	typ    string // beforePart, firstPart, lastPart: part type
	empty  bool   // firstPart, lastPart: the array is empty

	head, tail string // createdMember: bytes around the text
}

// userTextPlace returns the place for a block before the user's own words: just before the last text part that contains
// such words. If no part contains any, the place is before the last text part. Only parts after the last tool result
// count.
func userTextPlace(b []byte, parts []part, d Dialect) (place, bool) {
	at := -1
	for i := len(parts) - 1; i >= 0 && parts[i].kind != resultPart; i-- {
		if parts[i].kind != textPart {
			continue
		}
		words := userWords(text(b, parts[i].text), nil) != ""
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
	case parts[at].isString:
		return place{offset: parts[at].span.start + 1, form: insideString}, true
	}
	return place{offset: parts[at].span.start, form: beforePart, typ: partType(parts[at].typ, d)}, true
}

func resultPlace(b []byte, content span, d Dialect) (place, bool) {
	switch firstByteAt(b, content) {
	case '"':
		return place{offset: content.start + 1, form: insideString}, true
	case '[':
		p := place{offset: content.start + 1, form: firstPart, typ: d.partType(), empty: true}
		for e := range elements(b, content) {
			p.empty = false
			if t := partAt(b, e); t.kind == textPart {
				p.typ = partType(t.typ, d)
				break
			}
		}
		return p, true
	case 'n':
		return place{offset: content.start, form: replacedNull}, true
	}
	return place{}, false
}

// partType returns the type for a new part next to a part with type typ. It is the same type if possible, because some
// servers know only one of the names.
func partType(typ string, d Dialect) string {
	if typ == "text" || typ == "input_text" {
		return typ
	}
	return d.partType()
}

// findPlace returns the place for an edit. ok is false if there is none, for example because a different precept has
// already created a member there (see createdContent).
func (r *Request) findPlace(item, block int) (p place, ok bool) {
	if item == System {
		return r.systemPlace()
	}
	if item < 0 || item >= len(r.scan.list) {
		return place{}, false
	}
	switch role := r.scan.list[item].role; {
	case role == RoleUser && block < 0:
		return userTextPlace(r.Body, r.parts(item), r.Dialect)
	case role == RoleUser:
		if p, ok := r.observationPlace(item, block); ok || r.Dialect != Messages {
			return p, ok
		}
	case role != RoleTool || block < 0:
		return place{}, false
	}
	switch r.Dialect {
	case Chat:
		return resultPlace(r.Body, r.content(item), Chat)
	case Responses:
		f := responsesItemAt(r.Body, r.itemSpan(item))
		return outputPlace(r.Body, text(r.Body, f.kind), f.output)
	case Messages:
		if parts := r.parts(item); block < len(parts) && parts[block].kind == resultPart {
			return blockPlace(r.Body, parts[block].span)
		}
	case NoDialect:
	}
	return place{}, false
}

// insertion holds all texts for one place.
type insertion struct {
	item, block int
	where       place
	texts       []string
}

// insertions returns the edits grouped by place, in body order, without empty texts.
func (r *Request) insertions(edits []Edit) ([]insertion, error) {
	list := make([]insertion, 0, len(edits))
	for _, e := range edits {
		if e.Text == "" {
			continue
		}
		i := slices.IndexFunc(list, func(s insertion) bool { return s.item == e.Item && s.block == e.Block })
		if i < 0 {
			p, ok := r.findPlace(e.Item, e.Block)
			if !ok {
				return nil, fmt.Errorf("splice: no place for text in %[3]s item %[1]d, block %[2]d", e.Item, e.Block, r.Dialect)
			}
			i = len(list)
			list = append(list, insertion{item: e.Item, block: e.Block, where: p})
		}
		list[i].texts = append(list[i].texts, e.Text)
	}
	slices.SortStableFunc(list, func(a, b insertion) int { return cmp.Compare(a.where.offset, b.where.offset) })
	return list, nil
}

// Splice appends the body to dst, with the edits' texts and without the cuts. dst must not overlap Body. Texts at the
// same place keep their order. If an edit has no place, dst is returned unchanged with an error.
func (r *Request) Splice(dst []byte, edits []Edit, cuts ...Cut) ([]byte, error) {
	insertions, err := r.insertions(edits)
	if err != nil {
		return dst, err
	}
	size := len(r.Body)
	for _, e := range edits {
		size += len(e.Text) + len(e.Text)/16 + 48
	}
	dst = slices.Grow(dst, size)
	from, cuts := 0, sortedCuts(cuts)
	for _, s := range insertions {
		dst, cuts = r.appendWithout(dst, from, s.where.offset, cuts)
		dst = s.where.appendTo(dst, s.texts)
		from = s.where.offset
		if s.where.form == replacedNull {
			dst = append(dst, nullText+`"`...)
			from += len(nullText)
		}
	}
	dst, _ = r.appendWithout(dst, from, len(r.Body), cuts)
	return dst, nil
}

func (p *place) appendTo(dst []byte, texts []string) []byte {
	switch p.form {
	case insideString, atEnd:
		return appendAll(dst, texts)
	case createdMember:
		return append(appendAll(append(dst, p.head...), texts), p.tail...)
	case replacedNull:
		return append(appendAll(append(dst, '"'), texts), nullMark...)
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
