package wire

import "strings"

// Some agents send no tools. The model's answer contains the call as prose, and the next user message contains the
// result. A user text is read as a result only if it begins like a known agent's result. An answer is read as a call
// only if such a result follows. Therefore pasted logs and quoted commands are not misread.

// agentFormat describes how an agent writes tool results into user messages.
type agentFormat struct {
	agent    string
	prefixes []string
	exact    bool // the whole text equals one of prefixes

	// read parses a result, and returns false for any other text. If read and readSteps are nil, the text is an agent's
	// note, such as a file list.
	read func(text string) (textResult, bool)

	// readSteps parses a message that contains the user's words (asked), followed by all calls and results so far. kind
	// is the RemovedPiece.Kind for the calls and results. If allowsTools is true, readSteps is also used for a request
	// with tools.
	readSteps   func(text string) (asked string, steps []step, ok bool)
	kind        string
	allowsTools bool
}

// textResult is a tool result written as text.
type textResult struct {
	text           string
	failed         bool
	mayBeSeparated bool // other messages may come between the answer that contains the call and its result

	call     *Call                                 // set if the result text contains the call
	findCall func(answer string) (c Call, ok bool) // parses the call in the answer before the result; may be nil
}

// agentFormats lists the known formats. The first match is used.
//
//nolint:gochecknoglobals // immutable
var agentFormats = []agentFormat{
	{agent: "mini-swe-agent", prefixes: []string{"<returncode>"}, read: func(s string) (textResult, bool) {
		return textResult{text: s, findCall: parseShellCall}, true
	}},
	{agent: "mini-swe-agent", prefixes: []string{"<exception>"}, read: func(s string) (textResult, bool) {
		return textResult{text: s, failed: true, findCall: parseShellCall}, strings.Contains(s, "<returncode>")
	}},
	{agent: "mini-swe-agent 1", prefixes: []string{"The last command <command>"}, read: func(s string) (textResult, bool) {
		return textResult{text: s, findCall: parseShellCall}, strings.Contains(s, "</command> timed out and has been killed.\n")
	}},
	{agent: "mini-swe-agent", prefixes: []string{
		"Format error:\n\n<error>\n", "Please always provide EXACTLY ONE action in triple backticks, found ",
	}},
	{agent: "Hermes, Qwen", prefixes: []string{"<tool_response>"}, read: parseToolResponse},
	{agent: "OpenHands", prefixes: []string{"EXECUTION RESULT of ["}, read: func(s string) (textResult, bool) {
		return textResult{text: s, findCall: parseTagCall}, true
	}},
	{agent: "Cline, Roo", prefixes: []string{"["}, read: parseBracketResult},
	{agent: "ReAct", prefixes: []string{"Observation:", "OBSERVATION:", "Observation "}, read: parseObservation},
	{agent: "AutoGen", prefixes: []string{"exitcode: "}, read: func(s string) (textResult, bool) {
		return textResult{text: s, findCall: parseShellCall}, strings.Contains(s[:min(len(s), 48)], "(execution ")
	}},
	{agent: "Open Interpreter", prefixes: []string{"Code output: "}, read: func(s string) (textResult, bool) {
		text, _, ok := strings.Cut(s, "\n\nWhat does this output mean / what's next")
		return textResult{text: strings.TrimPrefix(text, "Code output: "), findCall: parseShellCall}, ok
	}},
	{agent: "smolagents", prefixes: []string{"Error:\n", "Call id: "}, read: parseSmolError},
	{agent: "aider", prefixes: []string{"# Fix any errors below, if possible.\n"}, read: func(s string) (textResult, bool) {
		return textResult{text: withoutRules(s), failed: true}, true
	}},
	{agent: "aider", prefixes: []string{"# "}, read: parseMissedEdits},
	{agent: "aider", prefixes: []string{"I ran this command:\n\n"}, read: parseRanCommand},
	{agent: "aider", prefixes: []string{"I have *added these files to the chat*"}},
	{agent: "aider", prefixes: []string{"I updated the files."}, exact: true},
	{agent: "dspy", readSteps: parseTrajectory, kind: "trajectory", allowsTools: true},
	{agent: "ReAct in one message", readSteps: parseScratchpad, kind: "scratchpad"},
}

// growingFormat returns the format of a message that holds all calls and results so far (a growing message), or nil for
// other messages.
func growingFormat(text string) (p *agentFormat, asked string, steps []step) {
	for i := range agentFormats {
		if agentFormats[i].readSteps == nil {
			continue
		}
		if asked, steps, ok := agentFormats[i].readSteps(text); ok {
			return &agentFormats[i], asked, steps
		}
	}
	return nil, "", nil
}

func findAgentFormat(text string) *agentFormat {
	for i := range agentFormats {
		for _, prefix := range agentFormats[i].prefixes {
			if text == prefix || !agentFormats[i].exact && strings.HasPrefix(text, prefix) {
				return &agentFormats[i]
			}
		}
	}
	return nil
}

func parseTextResult(text string) (textResult, bool) {
	if p := findAgentFormat(text); p != nil && p.read != nil {
		if result, ok := p.read(text); ok {
			return result, true
		}
	}
	return textResult{}, false
}

func isAgentText(text string) bool {
	p := findAgentFormat(text)
	if p == nil || p.read == nil {
		return p != nil
	}
	_, ok := p.read(text)
	return ok
}

func parseToolResponse(s string) (textResult, bool) {
	const begin, end = "<tool_response>", "</tool_response>"
	text := strings.TrimSpace(strings.TrimPrefix(s, begin))
	if strings.Count(s, begin) == 1 {
		text, _, _ = strings.Cut(text, end)
	}
	return textResult{text: strings.TrimSpace(text), findCall: parseTagCall}, true
}

// parseBracketResult reads "[execute_command for 'ls'] Result:". It removes the environment details, which change every
// turn.
func parseBracketResult(s string) (textResult, bool) {
	head, rest, ok := strings.Cut(s, "] Result:")
	if name, _, named := strings.Cut(head[1:], " for '"); !ok || !named || !isToolName(name) {
		return textResult{}, false
	}
	rest, _, _ = strings.Cut(rest, "<environment_details>")
	return textResult{text: strings.TrimSpace(rest), findCall: parseTagCall}, true
}

func parseObservation(s string) (textResult, bool) {
	head, rest, ok := strings.Cut(s, ":")
	n, numbered := strings.CutPrefix(head[len("Observation"):], " ")
	ok = ok && (!numbered || n != "" && len(n) < 4 && strings.Trim(n, "0123456789") == "")
	return textResult{text: strings.TrimSpace(rest), findCall: parseActionCall}, ok
}

func parseSmolError(s string) (textResult, bool) {
	if id, rest, ok := strings.Cut(s, "\n"); ok && strings.HasPrefix(id, "Call id: ") {
		s = rest
	}
	text, _, ok := strings.Cut(strings.TrimPrefix(s, "Error:\n"), "\nNow let's retry: take care not to repeat previous errors!")
	return textResult{text: text, failed: true, findCall: parseActionCall}, ok && strings.HasPrefix(s, "Error:\n")
}

// parseMissedEdits reads aider's message about edits that do not match the files.
func parseMissedEdits(s string) (textResult, bool) {
	head, _, _ := strings.Cut(s, "\n")
	ok := strings.Contains(head, " SEARCH/REPLACE block") && strings.HasSuffix(head, " failed to match!")
	return textResult{text: withoutRules(s), failed: true, findCall: parseEditCall, mayBeSeparated: true}, ok
}

// parseRanCommand reads the output from aider's test run or from a command that the user allowed.
func parseRanCommand(s string) (textResult, bool) {
	_, s, _ = strings.Cut(s, "\n\n")
	command, output, ok := strings.Cut(s, "\n\nAnd got this output:\n\n")
	if !ok || strings.Contains(command, "\n\n") {
		return textResult{}, false
	}
	return textResult{text: strings.TrimSpace(withoutRules(output)), call: &Call{Name: "bash", Args: commandArgs(command)}}, true
}

func withoutRules(s string) string {
	for _, head := range editRulesHeads() {
		s, _, _ = strings.Cut(s, head)
	}
	return strings.TrimSpace(s)
}
