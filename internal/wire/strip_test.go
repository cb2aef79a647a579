package wire

import (
	"bytes"
	"fmt"
	"slices"
)

// Strip removes the texts that Splice has inserted for edits, and returns the original body.
func Strip(d Dialect, body []byte, edits []Edit) ([]byte, error) {
	// An inserted system message shifts the other items, and a text inserted before a user message can change which
	// tool results precept finds in the message. Strip therefore removes texts from the system prompt first, then from
	// the user messages, and then from the tool results.
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
	for _, insertions := range steps {
		var err error
		if body, err = strip(d, body, insertions); err != nil {
			return nil, err
		}
	}
	return body, nil
}

// strip removes the inserted texts from body. It returns an error if a text is not where it was inserted.
func strip(d Dialect, body []byte, insertions []insertion) ([]byte, error) {
	if len(insertions) == 0 {
		return bytes.Clone(body), nil
	}
	r, err := Parse(d, body)
	if err != nil {
		return nil, fmt.Errorf("strip: %w", err)
	}
	cuts := make([]span, 0, len(insertions))
	for _, ins := range insertions {
		cut, ok := r.insertedSpan(ins)
		if !ok {
			return nil, fmt.Errorf("strip: no inserted text in item %d, block %d of %s", ins.item, ins.block, d)
		}
		cuts = append(cuts, cut)
		if bytes.HasSuffix(cut.of(body), []byte(nullMark)) && body[cut.start] == '"' { // Splice replaced a null with a string: also cut the quote after null
			cuts = append(cuts, span{cut.end + len(nullText), cut.end + len(nullText) + 1})
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

// places returns the possible places for ins. If the inserted text looks like user text, findPlace returns a different
// part than before the insertion, so every text part is a possible place.
func (r *Request) places(ins insertion) []place {
	p, ok := r.findPlace(ins.item, ins.block)
	if !ok && p.form != createdMember {
		return nil
	}
	out := []place{p}
	if p.form == createdMember && !ok { // Splice may instead have replaced a null with a string
		out = append(out, place{offset: p.offset + len(p.head) - 1, form: replacedNull})
	}
	if p.form == insideString {
		out = []place{{offset: p.offset - 1, form: replacedNull}, p}
	}
	if p.form != beforePart {
		return out
	}
	for _, t := range r.parts(ins.item) {
		if t.kind == textPart {
			out = append(out, place{offset: t.span.start, form: beforePart, typ: partType(t.typ, r.Dialect)})
		}
	}
	return out
}

func (r *Request) insertedSpan(ins insertion) (span, bool) {
	for _, p := range r.places(ins) {
		text := p.appendTo(nil, ins.texts)
		cut := span{p.offset, p.offset + len(text)}
		if p.form == beforePart || p.form == atEnd || p.form == lastPart {
			cut = span{p.offset - len(text), p.offset}
		}
		if r.hasText(cut, text) {
			return cut, true
		}
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

func (r *Request) hasText(at span, text []byte) bool {
	return at.start >= 0 && at.end <= len(r.Body) && bytes.Equal(at.of(r.Body), text)
}
