package wire

import "strings"

const toolCallOpen = "<tool_call>" // Hermes and Qwen

// parseTagCall parses calls in tags, and otherwise calls parseActionCall. Several calls become one Call with the first
// name and all arguments.
func parseTagCall(text string) (Call, bool) {
	name, all := "", strings.Builder{} // a reply may hold ten thousand calls
	for _, rest, more := strings.Cut(text, toolCallOpen); more; _, rest, more = strings.Cut(rest, toolCallOpen) {
		var callText string
		callText, rest, _ = strings.Cut(rest, "</tool_call>")
		called, args := parseJSONCall(strings.TrimSpace(callText))
		if name == "" {
			name = called
		} else {
			all.WriteString("\n" + called + " ")
		}
		all.WriteString(args)
	}
	if name != "" {
		return Call{Name: name, Args: all.String()}, true
	}
	if i := strings.LastIndex(text, "<function="); i >= 0 {
		name, args, ok := strings.Cut(text[i+len("<function="):], ">")
		args, _, _ = strings.Cut(args, "</function>")
		return Call{Name: name, Args: taggedArgs(args)}, ok && isToolName(name)
	}
	if c, ok := parseNamedTag(text); ok {
		return c, true
	}
	return parseActionCall(text)
}

// parseJSONCall parses {"name": ..., "arguments": ...}. The default name is "tool", and the default arguments are all
// of s.
func parseJSONCall(s string) (name, args string) {
	b := []byte(s)
	if s == "" || s[0] != '{' || !valid(b) {
		return "tool", s
	}
	at := span{0, len(b)}
	args = s
	for _, field := range [...]string{"arguments", "parameters", "args"} {
		if v := member(b, at, field); !v.empty() {
			args = string(v.of(b))
			break
		}
	}
	if name = text(b, member(b, at, "name")); name == "" {
		name = "tool"
	}
	return name, args
}

func parseNamedTag(text string) (Call, bool) {
	end := strings.LastIndex(text, "\n</")
	if end < 0 {
		return Call{}, false
	}
	name, _, ok := strings.Cut(text[end+3:], ">")
	if !ok || !isToolName(name) {
		return Call{}, false
	}
	start := strings.LastIndex(text[:end+1], "<"+name+">\n")
	if start < 0 {
		return Call{}, false
	}
	return Call{Name: name, Args: taggedArgs(text[start+len(name)+2 : end])}, true
}

const (
	maxTaggedBytes = 16 << 10
	maxTags        = 32
)

// taggedArgs converts <name>value</name> arguments to a JSON object. A text without tags, or longer than
// maxTaggedBytes, stays unchanged.
func taggedArgs(s string) string {
	whole := strings.TrimSpace(s)
	if len(s) > maxTaggedBytes {
		return whole
	}
	var out []byte
	for range maxTags {
		_, rest, ok := strings.Cut(s, "<")
		tag, rest, closed := strings.Cut(rest, ">")
		name, end := tag, "</"+tag+">"
		if n, parameter := strings.CutPrefix(tag, "parameter="); parameter {
			name, end = n, "</parameter>"
		}
		if !ok || !closed {
			break
		}
		value, after, ended := strings.Cut(rest, end)
		s = rest
		if !ended || !isToolName(name) {
			continue
		}
		out = append(append(appendEscaped(append(out, `,"`...), name), `":"`...), appendEscaped(nil, strings.TrimSpace(value))...)
		out, s = append(out, '"'), after
	}
	if len(out) == 0 {
		return whole
	}
	out[0] = '{'
	return string(append(out, '}'))
}

func isToolName(name string) bool {
	return name != "" && len(name) < 64 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == ""
}

func parseLineCall(text string) (Call, bool) {
	i := strings.LastIndex(text, "\nAction")
	line, _, _ := strings.Cut(text[i+1:], "\n")
	head, call, ok := strings.Cut(line, ": ")
	if n := strings.TrimPrefix(head, "Action"); !ok || n == head || strings.Trim(n, " 0123456789") != "" {
		return Call{}, false
	}
	name, args, ok := strings.Cut(strings.TrimSpace(call), "[")
	return Call{Name: name, Args: commandArgs(strings.TrimSuffix(args, "]"))}, ok && isToolName(name) && strings.HasSuffix(args, "]")
}

func commandArgs(command string) string {
	return string(append(appendEscaped([]byte(`{"command":"`), strings.TrimSpace(command)), `"}`...))
}

func parseActionCall(text string) (Call, bool) {
	if _, list, ok := strings.Cut(text, "Calling tools:\n"); ok {
		if c, ok := parseListedCall(list); ok {
			return c, true
		}
	}
	if i := strings.LastIndex(text, "\nAction Input:"); i >= 0 {
		before := text[:i]
		if j := strings.LastIndex(before, "Action:"); j >= 0 && (j == 0 || before[j-1] == '\n') {
			name := strings.TrimSpace(before[j+len("Action:"):])
			input, _, _ := strings.Cut(text[i+len("\nAction Input:"):], "\nObservation")
			return Call{Name: name, Args: strings.TrimSpace(input)}, name != "" && len(name) < 128
		}
	}
	if c, ok := parseLineCall(text); ok {
		return c, true
	}
	if i := strings.LastIndex(text, "<code>"); i >= 0 {
		code, _, _ := strings.Cut(text[i+len("<code>"):], "</code>")
		return Call{Name: "python_interpreter", Args: strings.TrimSpace(code)}, true
	}
	return parseShellCall(text)
}

// parseListedCall parses smolagents calls in Python notation. Several calls become one Call with the first name and all
// arguments.
func parseListedCall(list string) (Call, bool) {
	var c Call
	for range 16 {
		_, rest, ok := strings.Cut(list, "'function': {'name': '")
		if !ok {
			break
		}
		name, rest, _ := strings.Cut(rest, "'")
		_, args, ok := strings.Cut(rest, "'arguments': ")
		if !ok {
			break
		}
		end := strings.Index(args, "}}, {'id': ")
		if end < 0 {
			end = len(strings.TrimSuffix(strings.TrimSpace(args), "}}]"))
		}
		if c.Name == "" {
			c.Name, c.Args = name, args[:end]
		} else {
			c.Args += "\n" + name + " " + args[:end]
		}
		list = args[end:]
	}
	return c, c.Name != ""
}

func parseShellCall(text string) (Call, bool) {
	end := strings.LastIndex(text, "\n```")
	if end < 0 {
		return Call{}, false
	}
	start := strings.LastIndex(text[:end+1], "```")
	if start < 0 || start > 0 && text[start-1] != '\n' {
		return Call{}, false
	}
	_, code, _ := strings.Cut(text[start:end+1], "\n")
	code = strings.TrimSpace(code)
	return Call{Name: "bash", Args: commandArgs(code)}, code != ""
}

// parseEditCall parses aider's SEARCH/REPLACE edits, including the file name before the first edit.
func parseEditCall(text string) (Call, bool) {
	i := strings.Index(text, "<<<<<<< SEARCH\n")
	j := strings.LastIndex(text, ">>>>>>> REPLACE")
	if i < 0 || j < i {
		return Call{}, false
	}
	if at := strings.LastIndex(strings.TrimRight(text[:max(0, strings.LastIndex(text[:i], "```"))], "\n"), "\n"); at >= 0 {
		i = at + 1
	}
	return Call{Name: "search_replace", Args: strings.TrimSpace(text[i : j+len(">>>>>>> REPLACE")])}, true
}

// parseAnyCall parses a call in any text format. bare is false for a call in fenced code, because such code may be
// meant for a person.
func parseAnyCall(text string) (c Call, bare bool) {
	text = withoutThinking(text)
	if c, ok := parseObjectCall(text); ok {
		return c, true
	}
	c, ok := parseTagCall(text)
	if !ok {
		return Call{}, false
	}
	if bare = c.Name != "bash"; !bare {
		c.Name = "code" // a fence may hold code in any language
	}
	return c, bare
}

func withoutThinking(text string) string {
	text = strings.TrimSpace(text)
	for _, tag := range [...]string{"think", "thinking", "thought"} {
		if rest, ok := strings.CutPrefix(text, "<"+tag+">"); ok {
			if _, answer, ok := strings.Cut(rest, "</"+tag+">"); ok {
				return strings.TrimSpace(answer)
			}
		}
	}
	return text
}

// parseObjectCall parses a JSON object at the end of an answer as a call. The object may be in a code fence.
func parseObjectCall(text string) (Call, bool) {
	text = strings.TrimSpace(strings.TrimSuffix(text, "```"))
	from := strings.IndexByte(text, '{')
	if from < 0 || text[len(text)-1] != '}' {
		return Call{}, false
	}
	b := []byte(text[from:])
	if !valid(b) {
		return Call{}, false
	}
	c := Call{Name: "tool"}
	args := []byte{'{'}
	for key, v := range members(b, span{0, len(b)}) {
		switch name := string(key); name {
		case "thought", "thoughts", "thinking", "reasoning", "reflection", "current_state", "observation":
			continue
		case "request", "name", "tool", "tool_name", "action", "command", "function":
			if n, in := parseToolMember(b, v); n != "" && c.Name == "tool" {
				c.Name, c.Args = n, in
			}
		}
		if len(args) > 1 {
			args = append(args, ',')
		}
		args = append(AppendString(args, string(key)), ':')
		args = append(args, v.of(b)...)
	}
	if c.Args == "" {
		c.Args = string(append(args, '}'))
	}
	return c, len(args) > 1
}

// parseToolMember parses a member that may name the tool: a string, or an object with name and arguments.
func parseToolMember(b []byte, v span) (name, args string) {
	if firstByteAt(b, v) == '{' {
		name, args = parseJSONCall(string(v.of(b)))
		return name, args
	}
	if name = text(b, v); !isToolName(name) {
		return "", ""
	}
	return name, ""
}
