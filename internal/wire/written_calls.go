package wire

import "strings"

// askOpen begins a call of Hermes and Qwen.
const askOpen = "<tool_call>"

// tagCall reads the calls of an answer, or the last block of code. Several calls become one: the
// name of the first, and the arguments of all.
func tagCall(text string) (Call, bool) {
	name, all := "", strings.Builder{} // a reply may hold ten thousand calls
	for _, rest, more := strings.Cut(text, askOpen); more; _, rest, more = strings.Cut(rest, askOpen) {
		var asked string
		asked, rest, _ = strings.Cut(rest, "</tool_call>")
		called, args := jsonCall(strings.TrimSpace(asked))
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
		return Call{Name: name, Args: taggedArgs(args)}, ok && isTag(name)
	}
	if c, ok := namedTag(text); ok {
		return c, true
	}
	return actionCall(text)
}

// jsonCall reads {"name": ..., "arguments": ...}.
func jsonCall(s string) (name, args string) {
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

// namedTag reads the last block between a line with a tag and the line that closes the tag.
func namedTag(text string) (Call, bool) {
	end := strings.LastIndex(text, "\n</")
	if end < 0 {
		return Call{}, false
	}
	name, _, ok := strings.Cut(text[end+3:], ">")
	if !ok || !isTag(name) {
		return Call{}, false
	}
	start := strings.LastIndex(text[:end+1], "<"+name+">\n")
	if start < 0 {
		return Call{}, false
	}
	return Call{Name: name, Args: taggedArgs(text[start+len(name)+2 : end])}, true
}

// Bounds of the text and of the number of arguments that taggedArgs reads.
const (
	maxTagged = 16 << 10
	maxTags   = 32
)

// taggedArgs returns the arguments between tags as JSON, and the text itself for a long text or a
// text without tags.
func taggedArgs(s string) string {
	whole := strings.TrimSpace(s)
	if len(s) > maxTagged {
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
		if s = rest; !ended || !isTag(name) {
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

// isTag reports whether a name may be the name of a tool.
func isTag(name string) bool {
	return name != "" && len(name) < 64 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == ""
}

// lineCall reads the last line "Action: name[argument]", the first form of ReAct.
func lineCall(text string) (Call, bool) {
	i := strings.LastIndex(text, "\nAction")
	line, _, _ := strings.Cut(text[i+1:], "\n")
	head, call, ok := strings.Cut(line, ": ")
	if n := strings.TrimPrefix(head, "Action"); !ok || n == head || strings.Trim(n, " 0123456789") != "" {
		return Call{}, false
	}
	name, args, ok := strings.Cut(strings.TrimSpace(call), "[")
	return Call{Name: name, Args: commandArgs(strings.TrimSuffix(args, "]"))}, ok && isTag(name) && strings.HasSuffix(args, "]")
}

// commandArgs returns a command as the arguments of a call.
func commandArgs(command string) string {
	return string(append(appendEscaped([]byte(`{"command":"`), strings.TrimSpace(command)), `"}`...))
}

// actionCall reads a call in the forms of smolagents and ReAct, or the last block of code.
func actionCall(text string) (Call, bool) {
	if _, list, ok := strings.Cut(text, "Calling tools:\n"); ok {
		if c, ok := listedCall(list); ok {
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
	if c, ok := lineCall(text); ok {
		return c, true
	}
	if i := strings.LastIndex(text, "<code>"); i >= 0 {
		code, _, _ := strings.Cut(text[i+len("<code>"):], "</code>")
		return Call{Name: "python_interpreter", Args: strings.TrimSpace(code)}, true
	}
	return shellCall(text)
}

// listedCall reads the calls of smolagents as Python prints them. Several calls become one: the
// name of the first, and the arguments of all.
func listedCall(list string) (Call, bool) {
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

// shellCall reads the last closed block of fenced code as a command.
func shellCall(text string) (Call, bool) {
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

// editCall reads the edits of aider, from the file of the first edit on.
func editCall(text string) (Call, bool) {
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

// anyCall reads the call of an answer in any form. bare reports a form that only a program reads:
// blocks of code are also meant for people.
func anyCall(text string) (c Call, bare bool) {
	text = withoutThinking(text)
	if c, ok := objectCall(text); ok {
		return c, true
	}
	c, ok := tagCall(text)
	if !ok {
		return Call{}, false
	}
	if bare = c.Name != "bash"; !bare {
		c.Name = "code" // in any language
	}
	return c, bare
}

// withoutThinking returns an answer without the thoughts at its beginning.
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

// objectCall reads the JSON object at the end of an answer, fenced or not.
func objectCall(text string) (Call, bool) {
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
			if n, in := namedCall(b, v); n != "" && c.Name == "tool" {
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

// namedCall reads a member of a call that may name the tool: the member is the name, or holds the
// name and the arguments.
func namedCall(b []byte, v span) (name, args string) {
	if kindAt(b, v) == '{' {
		name, args = jsonCall(string(v.of(b)))
		return name, args
	}
	if name = text(b, v); !isTag(name) {
		return "", ""
	}
	return name, ""
}
