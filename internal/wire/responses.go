package wire

import "strings"

// A Responses API body has an "instructions" member and an "input" member. The input is a string or a list of items
// {type, ...}. A message may omit the type.

// itemRole returns RoleAssistant for model output, RoleTool for tool output, and RoleOther for an unknown type. An item
// with an unknown type is never changed.
func itemRole(role, kind []byte) Role {
	switch string(kind) {
	case "", "message":
		return parseRole(string(role))
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

// outputPlace returns the place for text at the top of a tool's output. If the output is from several shell commands,
// the place is at the top of the first command's output. An output without text, such as a screenshot, has no place.
func outputPlace(b []byte, kind string, output span) (place, bool) {
	switch kind {
	case "function_call_output", "custom_tool_call_output":
		return resultPlace(b, output, Responses)
	case "local_shell_call_output", "apply_patch_call_output":
	case "shell_call_output":
		output = firstStdout(b, output)
	default:
		return place{}, false
	}
	if firstByteAt(b, output) != '"' {
		return place{}, false
	}
	return resultPlace(b, output, Responses)
}

func firstStdout(b []byte, output span) span {
	for e := range elements(b, output) {
		return member(b, e, "stdout")
	}
	return span{}
}

type responsesItem struct {
	kind, id, callID, name, content, args, input, action, output, status span
}

func responsesItemAt(b []byte, value span) (f responsesItem) {
	findMembers(b, value, field{"type", &f.kind}, field{"id", &f.id}, field{"call_id", &f.callID}, field{"name", &f.name},
		field{"content", &f.content}, field{"arguments", &f.args}, field{"input", &f.input},
		field{"action", &f.action}, field{"operation", &f.action}, field{"output", &f.output},
		field{"status", &f.status})
	return f
}

func (r *Request) decodeResponses(it *Item, value span) {
	b := r.Body
	if b[value.start] == '"' {
		it.setUserText(b, contentParts(b, value))
		return
	}
	f := responsesItemAt(b, value)
	kind := text(b, f.kind)
	it.Kind, it.ID = kind, text(b, f.id)
	it.IsReference = kind == "item_reference"
	switch it.Role {
	case RoleUser:
		it.setUserText(b, contentParts(b, f.content))
	case RoleTool:
		id := f.callID
		if id.empty() {
			id = f.id
		}
		res := Result{CallID: text(b, id)}
		res.LeadingBlocks, res.Text = cutResultBlocks(outputText(b, kind, f.output))
		if kind == "apply_patch_call_output" {
			res.IsError = patchErrorFlag(text(b, f.status))
		}
		if firstByteAt(b, f.output) == '[' && kind != "shell_call_output" {
			res.MediaHash = hashMedia(b, contentParts(b, f.output))
		}
		it.Results = []Result{res}
	case RoleAssistant, RoleSystem:
		it.Text = answerText(b, contentParts(b, f.content))
		if c, ok := f.call(b, kind); ok {
			it.Calls = []Call{c}
		}
	case RoleOther:
	}
}

func (r *responsesItem) call(b []byte, kind string) (Call, bool) {
	c := Call{ID: text(b, r.callID), Name: text(b, r.name)}
	switch kind {
	case "function_call":
		c.Args = argsText(b, r.args)
	case "custom_tool_call":
		c.Args = argsText(b, r.input)
	case "local_shell_call":
		c.Name, c.Args = "local_shell", string(r.action.of(b))
		if c.ID == "" {
			c.ID = text(b, r.id)
		}
	case "shell_call":
		c.Name, c.Args = "shell", string(r.action.of(b))
	case "apply_patch_call":
		c.Name, c.Args = "apply_patch", string(r.action.of(b))
	default:
		return Call{}, false
	}
	return c, true
}

func (r *responsesItem) hostedArgs(b []byte, v span) string {
	for _, args := range [...]span{r.args, r.action, r.input, member(b, v, "code"), member(b, v, "queries")} {
		if !args.empty() {
			return argsText(b, args)
		}
	}
	return ""
}

func patchErrorFlag(status string) int8 {
	switch status {
	case "failed":
		return 1
	case "completed":
		return -1
	}
	return 0
}

// outputText returns a tool's output as text. Output that is not a string, text parts or shell output is returned as
// JSON.
func outputText(b []byte, kind string, v span) string {
	switch k := firstByteAt(b, v); {
	case k == 0 || k == 'n':
		return ""
	case k == '"':
		return text(b, v)
	case k == '[' && kind == "shell_call_output":
		return shellText(b, v)
	case k == '[':
		return joinText(b, contentParts(b, v))
	}
	return string(v.of(b))
}

func shellText(b []byte, v span) string {
	var lines []string
	for e := range elements(b, v) {
		for _, k := range []string{"stdout", "stderr"} {
			if s := text(b, member(b, e, k)); s != "" {
				lines = append(lines, s)
			}
		}
		outcome := member(b, e, "outcome")
		if code := member(b, outcome, "exit_code"); !code.empty() {
			lines = append(lines, "Exit code: "+string(code.of(b)))
		} else if text(b, member(b, outcome, "type")) == "timeout" {
			lines = append(lines, "Command timed out")
		}
	}
	return strings.Join(lines, "\n")
}
