package wire

import "slices"

// A Chat Completions body has a "messages" member, a list of {role, content, tool_calls, tool_call_id}.

func (r *Request) decodeChat(it *Item, value span) {
	b := r.Body
	var content, calls, legacy, callID, name, id, refusal, audio span
	findMembers(b, value, field{"content", &content}, field{"tool_calls", &calls}, field{"function_call", &legacy},
		field{"tool_call_id", &callID}, field{"name", &name}, field{"id", &id},
		field{"refusal", &refusal}, field{"audio", &audio})
	it.ID = text(b, id)
	parts := contentParts(b, content)
	switch it.Role {
	case RoleUser:
		it.setUserText(b, parts)
	case RoleTool:
		if callID.empty() && r.hasRecentCall(it.Index, it.ID) { // Qwen-Agent puts the call id into id
			callID, it.ID = id, ""
		} else if callID.empty() {
			callID = name
		}
		res := Result{CallID: text(b, callID), MediaHash: hashMedia(b, parts)}
		if res.CallID == "" {
			res.CallID = generatedID(r.scan.firstIndex + it.Index)
		}
		res.LeadingBlocks, res.Text = cutResultBlocks(joinText(b, parts))
		it.Results = []Result{res}
	case RoleAssistant:
		if it.Text = answerText(b, parts); it.Text == "" {
			it.Text = text(b, refusal)
		}
		if id := text(b, member(b, audio, "id")); id != "" {
			it.ProviderIDs = []string{id}
		}
		it.Calls = chatCalls(b, calls, legacy)
		setMissingIDs(it.Calls, r.scan.firstIndex+it.Index)
	case RoleSystem, RoleOther:
		it.Text = joinText(b, parts)
	}
}

func (r *Request) hasRecentCall(i int, id string) bool {
	for j := i - 1; id != "" && j >= max(0, i-maxResultDistance); j-- {
		if r.scan.list[j].role == RoleAssistant {
			return slices.ContainsFunc(r.Item(j).Calls, func(c Call) bool { return c.ID == id })
		}
	}
	return false
}

func chatCalls(b []byte, calls, legacy span) []Call {
	var out []Call
	for c := range elements(b, calls) {
		out = append(out, chatCall(b, c))
	}
	if firstByteAt(b, legacy) == '{' {
		c := decodeCall(b, legacy, "arguments")
		c.ID = c.Name // function_call has no id; its result refers to the call by name
		out = append(out, c)
	}
	return out
}

func chatCall(b []byte, v span) Call {
	var id, function, custom span
	findMembers(b, v, field{"id", &id}, field{"function", &function}, field{"custom", &custom})
	c := decodeCall(b, function, "arguments")
	if !custom.empty() {
		c = decodeCall(b, custom, "input")
	}
	c.ID = text(b, id)
	return c
}

// decodeCall decodes {name, arguments} or {name, input}. key names the second member.
func decodeCall(b []byte, v span, key string) Call {
	var name, args span
	findMembers(b, v, field{"name", &name}, field{key, &args})
	return Call{Name: text(b, name), Args: argsText(b, args)}
}

// argsText returns a call's arguments. The APIs define a string, but some servers and clients send the JSON value
// itself.
func argsText(b []byte, v span) string {
	if isArgsValue(b, v) {
		return string(v.of(b))
	}
	return text(b, v)
}

func isArgsValue(b []byte, v span) bool { return firstByteAt(b, v) == '{' || firstByteAt(b, v) == '[' }
