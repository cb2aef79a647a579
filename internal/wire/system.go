package wire

import (
	"bytes"
	"strings"
)

// System is the Edit.Item for the system prompt. Splice appends the edit's text to the prompt, or creates a prompt.
// Such an edit invalidates the provider's prompt cache for the conversation.
const System = -2

// Beginnings of members and messages that precept creates. The space before the colon distinguishes such a member from
// a client's. precept adds no text to a member that a different precept created.
const (
	createdContent      = `"content" :"`
	createdSystem       = `"system" :"`
	createdInstructions = `"instructions" :"`
	createdMessage      = `{"role":"system","content" :"`
)

// SystemText returns the text from the "instructions" or "system" member and from the leading system messages, without
// precept's blocks.
func (r *Request) SystemText() string {
	texts := make([]string, 0, 2)
	if t := joinText(r.Body, contentParts(r.Body, r.members.system)); t != "" {
		texts = append(texts, t)
	}
	for i := range r.scan.list {
		if r.scan.list[i].role != RoleSystem {
			break
		}
		if t := r.Item(i).Text; t != "" {
			texts = append(texts, t)
		}
	}
	return strings.TrimSpace(withoutBlocks(strings.Join(texts, "\n"), nil))
}

// Prompt returns the JSON of the top-level members for the system prompt and for the tools, as sent. An absent member
// is nil.
func (r *Request) Prompt() (system, tools []byte) {
	if v := r.members.system; firstByteAt(r.Body, v) == '"' || firstByteAt(r.Body, v) == '[' {
		system = v.of(r.Body)
	}
	if v := r.members.tools; firstByteAt(r.Body, v) == '[' {
		tools = v.of(r.Body)
	}
	return system, tools
}

// systemPlace returns the place at the end of the system prompt, or in a new member or message. The bool is false if
// there is a member such as "System", because an upstream that ignores case would read two prompts.
func (r *Request) systemPlace() (place, bool) {
	if !r.members.system.empty() {
		return r.endPlace(r.members.system)
	}
	if r.hasSystemItem() {
		if r.hasPrefixAt(r.itemSpan(0).start, createdMessage) {
			return place{offset: r.itemSpan(0).start, form: createdMember, head: createdMessage, tail: `"},`}, false
		}
		return r.endPlace(member(r.Body, r.itemSpan(0), "content"))
	}
	if r.Dialect != Chat && !r.members.misspelt.empty() {
		return place{}, false
	}
	switch r.Dialect {
	case Chat:
		return place{offset: r.itemSpan(0).start, form: createdMember, head: createdMessage, tail: `"},`}, true
	case Responses:
		return place{offset: r.members.firstMember, form: createdMember, head: createdInstructions, tail: `",`}, true
	case Messages:
		return place{offset: r.members.firstMember, form: createdMember, head: createdSystem, tail: `",`}, true
	case NoDialect:
	}
	return place{}, false
}

func (r *Request) hasSystemItem() bool {
	return r.members.system.empty() && r.Dialect != Messages && len(r.scan.list) > 0 && r.scan.list[0].role == RoleSystem
}

func (r *Request) endPlace(v span) (place, bool) {
	switch firstByteAt(r.Body, v) {
	case '"':
		for _, head := range []string{createdSystem, createdInstructions} {
			if v.start == r.members.firstMember+len(head)-1 && r.hasPrefixAt(r.members.firstMember, head) {
				return place{offset: r.members.firstMember, form: createdMember, head: head, tail: `",`}, false
			}
		}
		return place{offset: v.end - 1, form: atEnd}, true
	case '[':
		p := place{offset: v.start + 1, form: lastPart, typ: r.Dialect.partType(), empty: true}
		for e := range elements(r.Body, v) {
			p.offset, p.empty = e.end, false
		}
		return p, true
	}
	return place{}, false
}

func (r *Request) hasPrefixAt(offset int, head string) bool {
	return bytes.HasPrefix(r.Body[offset:], []byte(head))
}
