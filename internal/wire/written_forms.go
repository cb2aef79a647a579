package wire

import "strings"

// report is what the text of a user's message says about a call.
type report struct {
	text   string
	failed bool
	apart  bool // the answer that it answers need not be the one right before it

	call *Call                                 // it names the call itself;
	find func(answer string) (c Call, ok bool) // or reads it in that answer; nil: nobody asked for it
}

// readReport reads the text of a user's message, without precept's own blocks.
func readReport(s string) (report, bool) {
	switch {
	case s == "":
		return report{}, false
	case s[0] == '<' || s[0] == '[' || strings.HasPrefix(s, ranTool):
		return tagReport(s)
	case s[0] == 'O' || s[0] == 'E' || s[0] == 'C' || s[0] == 'e':
		return actionReport(s)
	case missedEdits(s):
		return report{text: withoutRules(s), failed: true, find: editCall, apart: true}, true
	case strings.HasPrefix(s, lintHead):
		return report{text: withoutRules(s), failed: true}, true
	case strings.HasPrefix(s, ranHead):
		return ranReport(s)
	}
	return report{}, false
}

// missedEdits says whether aider tells that edits did not fit the files.
func missedEdits(s string) bool {
	head, _, _ := strings.Cut(s, "\n")
	return strings.HasPrefix(head, "# ") && strings.Contains(head, " SEARCH/REPLACE block") && strings.HasSuffix(head, " failed to match!")
}

const (
	lintHead = "# Fix any errors below, if possible.\n"
	ranHead  = "I ran this command:\n\n"
	ranTail  = "\n\nAnd got this output:\n\n"

	retryTail = "\nNow let's retry: take care not to repeat previous errors!"

	interpreterTail = "\n\nWhat does this output mean / what's next"
)

// actionReport reads the observations of ReAct, and the errors of smolagents.
func actionReport(s string) (report, bool) {
	for _, head := range [...]string{"Observation:", "OBSERVATION:"} {
		if rest, ok := strings.CutPrefix(s, head); ok {
			return report{text: strings.TrimSpace(rest), find: actionCall}, true
		}
	}
	if rest, ok := strings.CutPrefix(s, "Observation "); ok { // they are counted
		if n, rest, ok := strings.Cut(rest, ":"); ok && n != "" && len(n) < 4 && strings.Trim(n, "0123456789") == "" {
			return report{text: strings.TrimSpace(rest), find: actionCall}, true
		}
	}
	switch {
	case strings.HasPrefix(s, "exitcode: ") && strings.Contains(s[:min(len(s), 48)], "(execution "):
		return report{text: s, find: shellCall}, true
	case strings.HasPrefix(s, "Code output: ") && strings.Contains(s, interpreterTail):
		text, _, _ := strings.Cut(s, interpreterTail)
		return report{text: strings.TrimPrefix(text, "Code output: "), find: shellCall}, true
	}
	if id, rest, ok := strings.Cut(s, "\n"); ok && strings.HasPrefix(id, "Call id: ") {
		s = rest
	}
	if rest, ok := strings.CutPrefix(s, "Error:\n"); ok {
		if text, _, ok := strings.Cut(rest, retryTail); ok {
			return report{text: text, failed: true, find: actionCall}, true
		}
	}
	return report{}, false
}

// ranReport reads what aider says about a command: a test that it ran, or a command that the person
// let it run.
func ranReport(s string) (report, bool) {
	command, output, ok := strings.Cut(s[len(ranHead):], ranTail)
	if !ok || strings.Contains(command, "\n\n") {
		return report{}, false
	}
	return report{text: strings.TrimSpace(withoutRules(output)), call: &Call{Name: "bash", Args: commandArgs(command)}}, true
}

func withoutRules(s string) string {
	for _, head := range rulesHead() {
		s, _, _ = strings.Cut(s, head)
	}
	return strings.TrimSpace(s)
}

// noted says whether an agent reports in the user's place what it did of its own accord: no call
// asked for it.
func noted(s string) bool {
	return s == "I updated the files." || strings.HasPrefix(s, "Format error:\n\n<error>\n") ||
		strings.HasPrefix(s, "I have *added these files to the chat*")
}

// commandArgs is a command as the arguments of a call.
func commandArgs(command string) string {
	return string(append(appendEscaped([]byte(`{"command":"`), strings.TrimSpace(command)), `"}`...))
}

// actionCall reads a call in the forms of smolagents and of ReAct, else the last block of code.
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

// listedCall reads what smolagents writes of its calls, as Python prints them. Of several it is the
// first one's name and everything that they ask for.
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

// shellCall reads the last block of code between fences that is closed, as a command.
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

// editCall reads aider's edits: everything from the first one's file on.
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
