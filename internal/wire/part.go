package wire

import "strings"

type partKind uint8

const (
	otherPart partKind = iota
	textPart
	resultPart
	callPart
)

type part struct {
	span     span // position of the whole part
	kind     partKind
	text     span   // textPart: string literal
	typ      string // text, input_text, output_text, or "" for another type
	id       span
	isString bool // this part is the whole content, a string
}

func contentParts(b []byte, v span) []part {
	switch firstByteAt(b, v) {
	case '"':
		return []part{{span: v, kind: textPart, text: v, isString: true}}
	case '[':
		parts := make([]part, 0, 4)
		for e := range elements(b, v) {
			parts = append(parts, partAt(b, e))
		}
		return parts
	}
	return nil
}

func (r *Request) content(i int) span {
	if at := r.itemSpan(i); r.Body[at.start] != '{' {
		return at
	}
	return member(r.Body, r.itemSpan(i), "content")
}

// parts returns the content parts of item i. It caches one item's parts, because callers need them once per result, and
// a message can hold thousands of results.
func (r *Request) parts(i int) []part {
	if r.memo.splitItem != i+1 {
		r.memo.splitParts, r.memo.splitItem = contentParts(r.Body, r.content(i)), i+1
	}
	return r.memo.splitParts
}

func partAt(b []byte, e span) part {
	p := part{span: e}
	var txt, kind span
	findMembers(b, e, field{"text", &txt}, field{"type", &kind}, field{"id", &p.id})
	switch string(textBytes(b, kind)) {
	case "tool_result":
		p.kind = resultPart
	case "tool_use":
		p.kind = callPart
	case "text":
		p.typ = "text"
	case "input_text":
		p.typ = "input_text"
	case "output_text":
		p.typ = "output_text"
	}
	if p.typ != "" && firstByteAt(b, txt) == '"' {
		p.kind, p.text = textPart, txt
	}
	return p
}

func joinText(b []byte, parts []part) string {
	if len(parts) == 1 && parts[0].kind == textPart { // usual case: no text list
		return text(b, parts[0].text)
	}
	var texts []string
	for _, p := range parts {
		if p.kind != textPart {
			continue
		}
		if t := text(b, p.text); t != "" || texts != nil {
			texts = append(texts, t)
		}
	}
	return strings.Join(texts, "\n")
}

func answerText(b []byte, parts []part) string {
	content := joinText(b, parts)
	for i := 0; content == "" && i < len(parts); i++ {
		content = text(b, member(b, parts[i].span, "refusal"))
	}
	return content
}

func (it *Item) setUserText(b []byte, parts []part) {
	var texts, words []string
	for _, p := range parts {
		switch p.kind {
		case textPart:
			t := text(b, p.text)
			it.HasText = true
			lead, _ := cutLeadingBlocks(t)
			it.LeadingBlocks += lead
			if t != "" || texts != nil {
				texts = append(texts, t)
			}
			if w := userWords(t, nil); w != "" {
				words = append(words, w)
			}
		case resultPart: // nothing may be inserted before a result, so only text parts after the results count
			it.HasText = false
		case otherPart, callPart:
		}
	}
	it.Text, it.UserText = strings.Join(texts, "\n"), strings.Join(words, "\n")
}
