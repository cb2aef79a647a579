package wire

import (
	"bytes"
	"fmt"
	"slices"
)

// Strip removes the texts of edits from a body: the inverse of Splice.
func Strip(d Dialect, body []byte, edits []Edit) ([]byte, error) {
	// The order of removal is the system prompt, the words of users, the tool results. An inserted system
	// message shifts the indices of the other items. Text before the words of a message can change which
	// results precept reads in these words.
	var steps [3][]insertion
	for _, e := range edits {
		step := &steps[2]
		switch {
		case e.Text == "":
			continue
		case e.Item == System:
			step = &steps[0]
		case e.Block < 0:
			step = &steps[1]
		}
		i := slices.IndexFunc(*step, func(s insertion) bool { return s.item == e.Item && s.block == e.Block })
		if i < 0 {
			i, *step = len(*step), append(*step, insertion{item: e.Item, block: e.Block})
		}
		(*step)[i].texts = append((*step)[i].texts, e.Text)
	}
	for _, spots := range steps {
		var err error
		if body, err = strip(d, body, spots); err != nil {
			return nil, err
		}
	}
	return body, nil
}

// strip removes insertions from a body. All of them must be found in the body before any is removed.
func strip(d Dialect, body []byte, spots []insertion) ([]byte, error) {
	if len(spots) == 0 {
		return bytes.Clone(body), nil
	}
	r, err := Parse(d, body)
	if err != nil {
		return nil, fmt.Errorf("strip: %w", err)
	}
	cuts := make([]span, 0, len(spots))
	for _, g := range spots {
		cut, ok := r.inserted(g)
		if !ok {
			return nil, fmt.Errorf("strip: the text is not in item %d, block %d of %s", g.item, g.block, d)
		}
		cuts = append(cuts, cut)
		if bytes.HasSuffix(cut.of(body), []byte(beforeNull)) && body[cut.start] == '"' { // also remove the quote after the null
			cuts = append(cuts, span{cut.end + len(null), cut.end + len(null) + 1})
		}
	}
	slices.SortFunc(cuts, func(a, b span) int { return a.start - b.start })
	out, from := make([]byte, 0, len(body)), 0
	for _, c := range cuts {
		out = append(out, body[from:c.start]...)
		from = c.end
	}
	return append(out, body[from:]...), nil
}

// places returns the places where the inserted text of g may be. If the text itself reads as words of
// the user, placeOf chooses a different part than at the insertion, so places returns every text part.
func (r *Request) places(g insertion) []place {
	p, ok := r.placeOf(g.item, g.block)
	if !ok && p.form != newMember {
		return nil
	}
	out := []place{p}
	if p.form == newMember && !ok { // or Splice put the text into a string around a null of the client
		out = append(out, place{at: p.at + len(p.head) - 1, form: aroundNull})
	}
	if p.form == inString {
		out = []place{{at: p.at - 1, form: aroundNull}, p}
	}
	if p.form != beforePart {
		return out
	}
	for _, t := range r.parts(g.item) {
		if t.kind == textPart {
			out = append(out, place{at: t.at.start, form: beforePart, typ: partType(t.typ, r.Dialect)})
		}
	}
	return out
}

// inserted returns the span of the bytes that Splice inserted for g.
func (r *Request) inserted(g insertion) (span, bool) {
	for _, p := range r.places(g) {
		text := p.appendTo(nil, g.texts)
		cut := span{p.at, p.at + len(text)}
		if p.form == beforePart || p.form == atEnd || p.form == lastPart {
			cut = span{p.at - len(text), p.at}
		}
		if r.hasText(cut, text) {
			return cut, true
		}
		// A part in an empty array has no comma.
		if cut.end--; p.form == firstPart && r.hasText(cut, text[:len(text)-1]) && bytes.TrimLeft(r.Body[cut.end:], " \t\r\n")[0] == ']' {
			return cut, true
		}
		cut = span{cut.start + 1, cut.end + 1}
		if p.form == lastPart && r.hasText(cut, text[1:]) && r.Body[cut.start-1] == '[' {
			return cut, true
		}
	}
	return span{}, false
}

// hasText reports whether the bytes of the body at the span are the text.
func (r *Request) hasText(at span, text []byte) bool {
	return at.start >= 0 && at.end <= len(r.Body) && bytes.Equal(at.of(r.Body), text)
}
