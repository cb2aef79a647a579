package wire

// Responses: instructions and input, a string or items of {type, ...}; a message may leave its type
// out.

// itemRole folds the item types: what the model made is RoleAssistant, what a tool gave back is
// RoleTool. A type that is not known here is RoleOther and never touched.
func itemRole(role, kind []byte) Role {
	switch string(kind) {
	case "", "message":
		return roleOf(string(role))
	case "function_call_output", "custom_tool_call_output", "local_shell_call_output", "shell_call_output",
		"apply_patch_call_output", "computer_call_output", "mcp_call_output":
		return RoleTool
	case "function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call", "computer_call",
		"web_search_call", "file_search_call", "image_generation_call", "code_interpreter_call", "mcp_call",
		"mcp_list_tools", "mcp_approval_request", "tool_search_call", "reasoning", "compaction", "item_reference":
		return RoleAssistant
	}
	return RoleOther
}

// openOutput says whether text can be put into the output of an item of this type: the other
// outputs are structures that a person or a screen made.
func openOutput(kind string) bool {
	return kind == "function_call_output" || kind == "custom_tool_call_output"
}

// respItem is an item of the Responses API, in requests and in replies.
type respItem struct {
	kind, id, callID, name, content, args, input, action, output span
}

func respItemAt(b []byte, at span) (f respItem) {
	locate(b, at, field{"type", &f.kind}, field{"id", &f.id}, field{"call_id", &f.callID}, field{"name", &f.name},
		field{"content", &f.content}, field{"arguments", &f.args}, field{"input", &f.input},
		field{"action", &f.action}, field{"operation", &f.action}, field{"output", &f.output})
	return f
}

func (r *Request) decodeResponses(it *Item, at span) {
	b := r.Body
	if b[at.start] == '"' {
		it.userText(b, contentParts(b, at))
		return
	}
	f := respItemAt(b, at)
	kind := text(b, f.kind)
	it.Kind, it.ID = kind, text(b, f.id)
	it.Ref = kind == "item_reference"
	switch it.Role {
	case RoleUser:
		it.userText(b, contentParts(b, f.content))
	case RoleTool:
		id := f.callID
		if id.empty() {
			id = f.id
		}
		res := Result{CallID: text(b, id)}
		res.Lead, res.Text = cutLead(outputText(b, kind, f.output))
		res.Closed = !openOutput(kind) || kindAt(b, f.output) != '"' && kindAt(b, f.output) != '['
		it.Results = []Result{res}
	case RoleAssistant, RoleSystem:
		it.Text = joinText(b, contentParts(b, f.content))
		if c, ok := f.call(b, kind); ok {
			it.Calls = []Call{c}
		}
	case RoleOther:
	}
}

// call reads the item as a tool call that the client is to answer.
func (f *respItem) call(b []byte, kind string) (Call, bool) {
	c := Call{ID: text(b, f.callID), Name: text(b, f.name)}
	switch kind {
	case "function_call":
		c.Args = text(b, f.args)
	case "custom_tool_call":
		c.Args = text(b, f.input)
	case "local_shell_call":
		c.Name, c.Args = "local_shell", string(f.action.of(b))
		if c.ID == "" {
			c.ID = text(b, f.id)
		}
	case "shell_call":
		c.Name, c.Args = "shell", string(f.action.of(b))
	case "apply_patch_call":
		c.Name, c.Args = "apply_patch", string(f.action.of(b))
	default:
		return Call{}, false
	}
	return c, true
}

// outputText is the text of a tool's output: a string, text parts, or else (what a shell of the
// provider's gave back) the JSON as it stands.
func outputText(b []byte, kind string, v span) string {
	switch k := kindAt(b, v); {
	case k == 0 || k == 'n':
		return ""
	case k == '"':
		return text(b, v)
	case k == '[' && openOutput(kind):
		return joinText(b, contentParts(b, v))
	}
	return string(v.of(b))
}

// responsesPlace finds where text goes in an item.
func responsesPlace(b []byte, role Role, at span) (place, bool) {
	if b[at.start] == '"' {
		return wordsPlace(b, contentParts(b, at), Responses)
	}
	f := respItemAt(b, at)
	switch role {
	case RoleUser:
		return wordsPlace(b, contentParts(b, f.content), Responses)
	case RoleTool:
		if openOutput(text(b, f.kind)) {
			return resultPlace(b, f.output, Responses)
		}
	case RoleSystem, RoleAssistant, RoleOther:
	}
	return place{}, false
}
