package wire

import "strings"

// Some agents have no tools on the wire: the answer of the model contains the call as prose, and the next
// message of the user contains the result. A text of the user is a result only if the text begins with
// the words of a known agent. A text of the model is a call only if such a result follows. Pasted logs
// and quoted commands are therefore not results.

// profile is the form in which an agent writes results as prose.
type profile struct {
	agent string
	marks []string // beginnings of the text
	exact bool     // a mark is the whole text

	// read parses a result; false for a text that only begins like a result. A text of a profile without
	// read is a note of the agent, such as a list of added files, and not a result.
	read func(text string) (textResult, bool)

	// readSteps parses a message that contains the words of the person and then all calls and results so
	// far. kind is the Stripped.Kind of such a message. With onWire, the request may also have tools.
	readSteps func(text string) (asked string, steps []step, ok bool)
	kind      string
	onWire    bool
}

// textResult is a tool result that an agent writes into the text of a message of the user.
type textResult struct {
	text      string
	failed    bool
	separated bool // messages of the agent may come between the answer and the result

	call *Call                                 // call, where the result names the call
	find func(answer string) (c Call, ok bool) // parses the call in the model's answer before the result; nil if call is set or no answer has the call
}

// profiles lists the known forms. The first profile with a mark of the text decides.
//
//nolint:gochecknoglobals // immutable
var profiles = []profile{
	{agent: "mini-swe-agent", marks: []string{"<returncode>"}, read: func(s string) (textResult, bool) {
		return textResult{text: s, find: shellCall}, true
	}},
	{agent: "mini-swe-agent", marks: []string{"<exception>"}, read: func(s string) (textResult, bool) {
		return textResult{text: s, failed: true, find: shellCall}, strings.Contains(s, "<returncode>")
	}},
	{agent: "mini-swe-agent", marks: []string{"Format error:\n\n<error>\n"}},
	{agent: "Hermes, Qwen", marks: []string{"<tool_response>"}, read: toolResponse},
	{agent: "OpenHands", marks: []string{"EXECUTION RESULT of ["}, read: func(s string) (textResult, bool) {
		return textResult{text: s, find: tagCall}, true
	}},
	{agent: "Cline, Roo", marks: []string{"["}, read: bracketResult},
	{agent: "ReAct", marks: []string{"Observation:", "OBSERVATION:", "Observation "}, read: observation},
	{agent: "AutoGen", marks: []string{"exitcode: "}, read: func(s string) (textResult, bool) {
		return textResult{text: s, find: shellCall}, strings.Contains(s[:min(len(s), 48)], "(execution ")
	}},
	{agent: "Open Interpreter", marks: []string{"Code output: "}, read: func(s string) (textResult, bool) {
		text, _, ok := strings.Cut(s, "\n\nWhat does this output mean / what's next")
		return textResult{text: strings.TrimPrefix(text, "Code output: "), find: shellCall}, ok
	}},
	{agent: "smolagents", marks: []string{"Error:\n", "Call id: "}, read: smolError},
	{agent: "aider", marks: []string{"# Fix any errors below, if possible.\n"}, read: func(s string) (textResult, bool) {
		return textResult{text: withoutRules(s), failed: true}, true
	}},
	{agent: "aider", marks: []string{"# "}, read: missedEdits},
	{agent: "aider", marks: []string{"I ran this command:\n\n"}, read: ranCommand},
	{agent: "aider", marks: []string{"I have *added these files to the chat*"}},
	{agent: "aider", marks: []string{"I updated the files."}, exact: true},
	{agent: "dspy", readSteps: trajectory, kind: "trajectory", onWire: true},
	{agent: "ReAct in one message", readSteps: scratchpad, kind: "scratchpad"},
}

// growingProfile returns the profile of a message that holds all calls and results so far; nil for none.
func growingProfile(text string) (p *profile, asked string, steps []step) {
	for i := range profiles {
		if profiles[i].readSteps == nil {
			continue
		}
		if asked, steps, ok := profiles[i].readSteps(text); ok {
			return &profiles[i], asked, steps
		}
	}
	return nil, "", nil
}

// profileOf returns the profile of a text without the blocks of precept; nil for none.
func profileOf(text string) *profile {
	for i := range profiles {
		for _, mark := range profiles[i].marks {
			if text == mark || !profiles[i].exact && strings.HasPrefix(text, mark) {
				return &profiles[i]
			}
		}
	}
	return nil
}

// parseTextResult reads a result in the text of a message of the user, without the blocks of precept.
func parseTextResult(text string) (textResult, bool) {
	if p := profileOf(text); p != nil && p.read != nil {
		if rep, ok := p.read(text); ok {
			return rep, true
		}
	}
	return textResult{}, false
}

// isAgentText reports whether an agent wrote the text of a message of the user: a result, or a note.
func isAgentText(text string) bool {
	p := profileOf(text)
	if p == nil || p.read == nil {
		return p != nil
	}
	_, ok := p.read(text)
	return ok
}

func toolResponse(s string) (textResult, bool) {
	const begin, end = "<tool_response>", "</tool_response>"
	text := strings.TrimSpace(strings.TrimPrefix(s, begin))
	if strings.Count(s, begin) == 1 {
		text, _, _ = strings.Cut(text, end)
	}
	return textResult{text: strings.TrimSpace(text), find: tagCall}, true
}

// bracketResult reads "[execute_command for 'ls'] Result:". The details of the environment after
// the result change from turn to turn.
func bracketResult(s string) (textResult, bool) {
	head, rest, ok := strings.Cut(s, "] Result:")
	if name, _, named := strings.Cut(head[1:], " for '"); !ok || !named || !isTag(name) {
		return textResult{}, false
	}
	rest, _, _ = strings.Cut(rest, "<environment_details>")
	return textResult{text: strings.TrimSpace(rest), find: tagCall}, true
}

// observation reads "Observation: ..." and the numbered form "Observation 3: ...".
func observation(s string) (textResult, bool) {
	head, rest, ok := strings.Cut(s, ":")
	n, numbered := strings.CutPrefix(head[len("Observation"):], " ")
	ok = ok && (!numbered || n != "" && len(n) < 4 && strings.Trim(n, "0123456789") == "")
	return textResult{text: strings.TrimSpace(rest), find: actionCall}, ok
}

func smolError(s string) (textResult, bool) {
	if id, rest, ok := strings.Cut(s, "\n"); ok && strings.HasPrefix(id, "Call id: ") {
		s = rest
	}
	text, _, ok := strings.Cut(strings.TrimPrefix(s, "Error:\n"), "\nNow let's retry: take care not to repeat previous errors!")
	return textResult{text: text, failed: true, find: actionCall}, ok && strings.HasPrefix(s, "Error:\n")
}

// missedEdits reads the message about edits that do not fit the files.
func missedEdits(s string) (textResult, bool) {
	head, _, _ := strings.Cut(s, "\n")
	ok := strings.Contains(head, " SEARCH/REPLACE block") && strings.HasSuffix(head, " failed to match!")
	return textResult{text: withoutRules(s), failed: true, find: editCall, separated: true}, ok
}

// ranCommand reads the output of a command: a test of aider, or a command that the person allowed.
func ranCommand(s string) (textResult, bool) {
	_, s, _ = strings.Cut(s, "\n\n")
	command, output, ok := strings.Cut(s, "\n\nAnd got this output:\n\n")
	if !ok || strings.Contains(command, "\n\n") {
		return textResult{}, false
	}
	return textResult{text: strings.TrimSpace(withoutRules(output)), call: &Call{Name: "bash", Args: commandArgs(command)}}, true
}

// withoutRules returns a text without the reminder of the form of answers that aider appends.
func withoutRules(s string) string {
	for _, head := range rulesHead() {
		s, _, _ = strings.Cut(s, head)
	}
	return strings.TrimSpace(s)
}
