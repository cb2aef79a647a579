package wire

import "strings"

// Calls between tags, as models write them that were taught a form of tools: JSON in <tool_call>
// (Hermes, Qwen), <function=NAME> (OpenHands), a tag of the tool's own name (Cline, Roo).

const (
	ranTool    = "EXECUTION RESULT of ["
	saidOpen   = "<tool_response>"
	saidClose  = "</tool_response>"
	askOpen    = "<tool_call>"
	askClose   = "</tool_call>"
	detailsTag = "<environment_details>" // what changes from turn to turn
)

// tagReport reads the results of such calls, and those of mini-swe-agent.
func tagReport(s string) (report, bool) {
	switch {
	case strings.HasPrefix(s, "<returncode>") || strings.HasPrefix(s, "<exception>") && strings.Contains(s, "<returncode>"):
		return report{text: s, failed: s[1] == 'e', find: shellCall}, true
	case strings.HasPrefix(s, saidOpen):
		text := strings.TrimSpace(strings.TrimPrefix(s, saidOpen))
		if strings.Count(s, saidOpen) == 1 {
			text, _, _ = strings.Cut(text, saidClose)
		}
		return report{text: strings.TrimSpace(text), find: tagCall}, true
	case strings.HasPrefix(s, ranTool):
		return report{text: s, find: tagCall}, true
	case s[0] == '[':
		head, rest, ok := strings.Cut(s, "] Result:")
		if name, _, named := strings.Cut(head[1:], " for '"); !ok || !named || !isTag(name) {
			return report{}, false
		}
		rest, _, _ = strings.Cut(rest, detailsTag)
		return report{text: strings.TrimSpace(rest), find: tagCall}, true
	}
	return report{}, false
}

// tagCall reads the calls of an answer, else the last block of code. Of several it is the first
// one's name and everything that they ask for.
func tagCall(text string) (Call, bool) {
	name, all := "", strings.Builder{} // a reply may hold them by the ten thousand
	for _, rest, more := strings.Cut(text, askOpen); more; _, rest, more = strings.Cut(rest, askOpen) {
		var asked string
		asked, rest, _ = strings.Cut(rest, askClose)
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

// namedTag reads the last block between a line that is a tag, and the line that closes it.
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

// maxTagged is how long a text may be in which arguments are looked for, and maxTags how many.
const (
	maxTagged = 16 << 10
	maxTags   = 32
)

// taggedArgs are the arguments that stand between tags as JSON; the text itself where it is long,
// or holds none.
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

// isTag says whether a name is one of a tool.
func isTag(name string) bool {
	return name != "" && len(name) < 64 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == ""
}

// lineCall reads ReAct's first form, a line "Action: name[what]", the last of them.
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
