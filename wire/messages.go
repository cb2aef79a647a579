package wire

import "bytes"

// Messages: system and messages[] of {role, content}; calls and results are blocks of the content.

func (r *Request) decodeMessages(it *Item, at span) {
	b := r.Body
	parts := contentParts(b, member(b, at, "content"))
	switch it.Role {
	case RoleUser:
		it.userText(b, parts)
		it.Results = blockResults(b, parts)
	case RoleTool:
		it.Results = blockResults(b, parts)
	case RoleAssistant:
		it.Text = joinText(b, parts)
		for _, p := range parts {
			switch {
			case p.kind == callPart:
				it.Calls = append(it.Calls, blockCall(b, p.at))
			case p.kind == otherPart && !p.id.empty():
				it.Served = append(it.Served, text(b, p.id))
			}
		}
	case RoleSystem, RoleOther:
		it.Text = joinText(b, parts)
	}
}

// blockCall reads a tool_use block.
func blockCall(b []byte, v span) Call {
	var id, name, input span
	locate(b, v, field{"id", &id}, field{"name", &name}, field{"input", &input})
	return Call{ID: text(b, id), Name: text(b, name), Args: string(input.of(b))}
}

// blockResults reads the tool_result blocks.
func blockResults(b []byte, parts []part) []Result {
	var out []Result
	for i, p := range parts {
		if p.kind != resultPart {
			continue
		}
		var call, content, failed span
		locate(b, p.at, field{"tool_use_id", &call}, field{"content", &content}, field{"is_error", &failed})
		res := Result{Block: i, CallID: text(b, call), IsError: errorMark(kindAt(b, failed))}
		inner := contentParts(b, content)
		res.Lead, res.Text = cutLead(joinText(b, inner))
		res.Beside = hashBeside(b, inner)
		_, open := blockPlace(b, p.at)
		res.Closed = !open
		out = append(out, res)
	}
	return out
}

func errorMark(kind byte) int8 {
	switch kind {
	case 't':
		return 1
	case 'f':
		return -1
	}
	return 0
}

// messagesPlace finds where text goes in message i: block < 0 the user's words, else that
// tool_result block.
func (r *Request) messagesPlace(i, block int) (place, bool) {
	if role := r.list[i].role; role != RoleUser && role != RoleTool {
		return place{}, false
	}
	b := r.Body
	if r.splitOf != i+1 { // one message may hold thousands of results, and many texts may go there
		r.split, r.splitOf = contentParts(b, member(b, r.at(i), "content")), i+1
	}
	parts := r.split
	if block < 0 {
		return wordsPlace(b, parts, Messages)
	}
	if block >= len(parts) || parts[block].kind != resultPart {
		return place{}, false
	}
	return blockPlace(b, parts[block].at)
}

// blockPlace is the place at the top of a tool_result's content; one that has none gets a member of
// its own.
func blockPlace(b []byte, at span) (place, bool) {
	own := place{at: at.start + 1, form: newMember, head: newContent, tail: `",`}
	if bytes.HasPrefix(b[own.at:], []byte(newContent)) {
		return own, false
	}
	content := member(b, at, "content")
	if content.empty() {
		return own, true
	}
	return resultPlace(b, content, Messages)
}
