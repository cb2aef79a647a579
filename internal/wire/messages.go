package wire

import "bytes"

// A Messages API body has a "system" member and a "messages" member, a list of {role, content}. Calls and results are
// blocks in the content.

func (r *Request) decodeMessages(it *Item, value span) {
	b := r.Body
	parts := contentParts(b, member(b, value, "content"))
	switch it.Role {
	case RoleUser:
		it.setUserText(b, parts)
		it.Results = blockResults(b, parts)
	case RoleTool:
		it.Results = blockResults(b, parts)
	case RoleAssistant:
		it.Text = joinText(b, parts)
		for _, p := range parts {
			switch {
			case p.kind == callPart:
				it.Calls = append(it.Calls, blockCall(b, p.span))
			case p.kind == otherPart && !p.id.empty():
				it.ProviderIDs = append(it.ProviderIDs, text(b, p.id))
			}
		}
	case RoleSystem, RoleOther:
		it.Text = joinText(b, parts)
	}
}

func blockCall(b []byte, v span) Call {
	var id, name, input span
	findMembers(b, v, field{"id", &id}, field{"name", &name}, field{"input", &input})
	return Call{ID: text(b, id), Name: text(b, name), Args: string(input.of(b))}
}

func blockResults(b []byte, parts []part) []Result {
	var out []Result
	for i, p := range parts {
		if p.kind != resultPart {
			continue
		}
		var call, content, failed span
		findMembers(b, p.span, field{"tool_use_id", &call}, field{"content", &content}, field{"is_error", &failed})
		res := Result{Block: i, CallID: text(b, call), IsError: errorFlag(firstByteAt(b, failed))}
		inner := contentParts(b, content)
		res.LeadingBlocks, res.Text = cutResultBlocks(joinText(b, inner))
		res.MediaHash = hashMedia(b, inner)
		out = append(out, res)
	}
	return out
}

func errorFlag(firstByte byte) int8 {
	switch firstByte {
	case 't':
		return 1
	case 'f':
		return -1
	}
	return 0
}

// blockPlace returns the place at the top of a tool_result's content, or in a new member if the result has no content.
func blockPlace(b []byte, value span) (place, bool) {
	resultStart := place{offset: value.start + 1, form: createdMember, head: createdContent, tail: `",`}
	if bytes.HasPrefix(b[resultStart.offset:], []byte(createdContent)) {
		return resultStart, false
	}
	content := member(b, value, "content")
	if content.empty() {
		return resultStart, true
	}
	return resultPlace(b, content, Messages)
}
