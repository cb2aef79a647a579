package detect

import (
	"strings"
)

// maxText is the number of bytes at either end of a result that are read. Tools report a failure first or last.
const maxText = 48 << 10

// Classify judges the result of a tool call. isError is the error flag of the API: +1 for an error, -1 for no
// error, 0 for no flag. Structure (refusals, the flag, exit codes, fields) goes before text at anchored places.
func Classify(toolName, args, text string, isError int8) Judgement {
	p := wording()
	call := p.analyseCall(toolName, args)
	return p.classify(&call, text, isError)
}

// classify returns the judgement of a tool result. A refusal and a pending result take precedence over
// the error flag of the API, and the flag over the text.
func (p *phrases) classify(call *toolCall, text string, isError int8) Judgement {
	text = clip(strings.TrimSpace(text))
	if by, rule := callRefusal(call, text); by != NoRefuser {
		return Judgement{Outcome: Refusal, Rule: "refusal:" + rule, By: by}
	}
	if rule, ok := call.phrases.readPending(text); ok && !call.readsFile() {
		return Judgement{Outcome: Pending, Rule: "pending:" + rule}
	}
	switch {
	case isError > 0:
		return flaggedJudgement(call, text)
	case isError < 0 && call.purpose != purposeExec && call.purpose != purposeOther && call.purpose != purposeWeb:
		return Judgement{Outcome: OK, Rule: "flag", Sure: true}
	}
	return classifyText(text, call, 0)
}

// callRefusal returns the refuser of a call and the rule, NoRefuser for a call without a refusal.
func callRefusal(call *toolCall, text string) (Refuser, string) {
	if call.readsFile() {
		return NoRefuser, ""
	}
	if by, rule := call.phrases.readRefusal(text); by != NoRefuser || call.purpose != purposeExec {
		return by, rule
	}
	return call.phrases.readInterrupt(text)
}

// readsFile reports whether the call reads or searches files, so that the result quotes files.
func (c *toolCall) readsFile() bool { return c.purpose == purposeRead || c.purpose == purposeSearch }

// flaggedJudgement judges a result with the error flag. The flag is correct except for commands that report
// "nothing found" by their exit code. classify handles refusals.
func flaggedJudgement(call *toolCall, text string) Judgement {
	if call.purpose == purposeExec {
		if r := call.phrases.unframe(text); r.code != 0 {
			return exitJudgement(r, call)
		}
	}
	if v, ok := parseLenient(text); ok {
		if judgement, found := envelope(v, call, 0); found && judgement.Outcome != OK {
			return judgement
		}
	}
	return Judgement{Outcome: Error, Rule: "flag"}
}

// classifyText judges a result by its text. depth is the number of envelopes around the text (envelope.go).
func classifyText(text string, call *toolCall, depth int) Judgement {
	text = unwrapText(text)
	if depth > 3 || text == "" {
		return Judgement{Outcome: OK}
	}
	if depth > 0 {
		if by, rule := callRefusal(call, text); by != NoRefuser {
			return Judgement{Outcome: Refusal, Rule: "refusal:" + rule, By: by}
		}
	}
	if text[0] == '{' || text[0] == '[' && !isProgress(text) {
		if v, ok := parseLenient(text); ok && call.structured(v) {
			if judgement, found := envelope(v, call, depth); found {
				return judgement
			}
			return Judgement{Outcome: OK, Rule: "json"}
		}
	}
	switch call.purpose {
	case purposeExec, purposeWait:
		return execJudgement(text, call)
	case purposeSearch:
		if call.quotes(text) {
			return Judgement{Outcome: OK, Rule: "matches"}
		}
		return call.phrases.readJudgement(text)
	case purposeRead:
		return call.phrases.readJudgement(text)
	case purposeEdit:
		return call.phrases.editJudgement(text)
	case purposePlan: // an agent's own notes may describe any error
		j := call.phrases.readJudgement(text)
		if j.Rule == "text:error-first" || j.Rule == "text:exception-first" {
			return j
		}
		return Judgement{Outcome: OK}
	case purposeWeb, purposeOther:
		return otherJudgement(text, call)
	}
	return Judgement{Outcome: OK}
}

// quotes reports whether the first line contains the words of the searched text. The line is then a match of
// the search, not an error message.
func (c *toolCall) quotes(text string) bool {
	pattern, _ := c.args.get("pattern", "query", "regex", "search")
	first, _, _ := strings.Cut(text, "\n")
	words := longestRuns(nil, pattern.text())
	for _, w := range words {
		if !strings.Contains(strings.ToLower(first), strings.ToLower(w)) {
			return false
		}
	}
	return len(words) > 0
}

// structured reports whether v is an envelope of the tool or harness. JSON in a file and JSON that a read-only
// program prints are no envelope.
func (c *toolCall) structured(v lenientValue) bool {
	if v.kind == arrayValue && (c.readsFile() || c.purpose == purposeExec) {
		if len(v.vals) == 0 {
			return false
		}
		_, query := v.vals[0].get("query", "command")
		part, _ := v.vals[0].get("type")
		return query || part.raw == "text"
	}
	if !c.readsFile() && (c.purpose != purposeExec || !c.shell.readOnly) {
		return true
	}
	return len(v.keys) > 0 && c.phrases.areKeys("result", v.keys)
}

// execJudgement judges the output of a command or program.
func execJudgement(text string, call *toolCall) Judgement {
	r := call.phrases.unframe(text)
	if !r.hasCode {
		first, _, _ := strings.Cut(r.body, "\n")
		if code := call.phrases.leadingCode(first); len(first) < 300 && code != 0 {
			if _, bad := call.phrases.statement(first); bad {
				return Judgement{Outcome: Error, Rule: "exit-code", Code: code}
			}
		}
	}
	return exitJudgement(r, call)
}

// exitJudgement judges by the exit code, and by the output where the command has no exit code or
// hides the exit code.
func exitJudgement(r shellResult, call *toolCall) Judgement {
	switch {
	case r.code == 1 && r.empty && call.phrases.inList("program quiet", call.shell.last):
		return Judgement{Outcome: OK, Rule: "nothing-found", Code: 1, Sure: true}
	case r.code != 0:
		return Judgement{Outcome: Error, Rule: "exit-code", Code: r.code}
	case r.empty:
		return Judgement{Outcome: OK, Rule: codeRule(r), Sure: r.hasCode && !call.shell.masked}
	case call.purpose == purposeExec && call.shell.readOnly:
		if !r.hasCode && call.phrases.framedTimeOut(r.body) {
			return Judgement{Outcome: Error, Rule: "text:timeout"}
		}
		if call.shell.onlyOwnErrors(r.body) {
			return Judgement{Outcome: Error, Rule: "text:shell"}
		}
		return Judgement{Outcome: OK, Rule: codeRule(r), Sure: r.hasCode}
	case r.hasCode && !call.shell.masked:
		// Exit code 0, but the first words report a failure: a script may print its error and succeed.
		if rule, bad := call.phrases.statement(r.body); bad && rule != "no-such" && rule != "invalid" {
			return Judgement{Outcome: Error, Rule: "soft:" + rule}
		}
		return Judgement{Outcome: OK, Rule: "exit-code", Sure: true}
	}
	if call.phrases.timedOut(r.body) {
		return Judgement{Outcome: Error, Rule: "text:timeout"}
	}
	if rule, bad := call.phrases.outputFails(r.body); bad {
		return Judgement{Outcome: Error, Rule: "text:" + rule}
	}
	if call.purpose == purposeExec && call.shell.hasOwnError(r.body) {
		return Judgement{Outcome: Error, Rule: "text:command"}
	}
	if rule := call.phrases.endFailureRule(r.body); rule != "" {
		return Judgement{Outcome: Error, Rule: "text:" + rule}
	}
	return Judgement{Outcome: OK, Rule: codeRule(r), Sure: r.hasCode || call.phrases.endsInSuccess(r.body)}
}

// timedOut reports whether the first or the last line of the output is the time-out message of a
// harness. Lines that hold only a tag do not count.
func (p *phrases) timedOut(body string) bool {
	lines := strings.Split(body, "\n")
	for len(lines) > 1 && isTag(lines[0]) {
		lines = lines[1:]
	}
	for len(lines) > 1 && (strings.TrimSpace(lines[len(lines)-1]) == "" || isTag(lines[len(lines)-1])) {
		lines = lines[:len(lines)-1]
	}
	return p.isTimeOut(lines[0]) || p.isTimeOut(lines[len(lines)-1])
}

// isTimeOut reports whether a line is the time-out message of a harness.
func (p *phrases) isTimeOut(line string) bool {
	low := strings.ToLower(cutText(withoutSigns(plainLine(line)), 300))
	low = strings.TrimLeft(low, "[<(./ ")
	for _, lead := range []string{"error>", "error: "} {
		low = strings.TrimPrefix(low, lead)
	}
	return hasPrefixOf(low, p.lists["time-of"]) && containsAny(low, p.lists["time-up"]...)
}

// isTag reports whether a line is one tag: "</shell_metadata>".
func isTag(line string) bool {
	line = strings.TrimSpace(line)
	return len(line) > 2 && line[0] == '<' && line[len(line)-1] == '>' && !strings.ContainsAny(line, " ")
}

// framedTimeOut reports whether a time-out message is the whole output, or ends the output between
// brackets. Elsewhere in the output, the message may be content that a read-only command prints.
func (p *phrases) framedTimeOut(body string) bool {
	body = strings.TrimSpace(body)
	last := body[strings.LastIndexByte(body, '\n')+1:]
	return (last == body || strings.IndexByte("[<", last[0]) >= 0) && p.timedOut(last)
}

func codeRule(r shellResult) string {
	if r.hasCode {
		return "exit-code"
	}
	return ""
}

// readJudgement judges the result of a tool that reads. A failure is a short result that is an
// error message, or any result that begins with <tool_use_error>.
func (p *phrases) readJudgement(text string) Judgement {
	if len(text) > 600 || strings.Count(text, "\n") > 5 {
		if strings.HasPrefix(text, "<tool_use_error>") {
			return Judgement{Outcome: Error, Rule: "text:error-first"}
		}
		return Judgement{Outcome: OK}
	}
	if rule, bad := p.statement(text); bad {
		return Judgement{Outcome: Error, Rule: "text:" + rule}
	}
	if p.allShellErrors(text) {
		return Judgement{Outcome: Error, Rule: "text:shell"}
	}
	return Judgement{Outcome: OK}
}

// editJudgement judges the result of a tool that changes files. Such tools report a failure in a few known
// sentences.
func (p *phrases) editJudgement(text string) Judgement {
	first, _, _ := strings.Cut(text, "\n")
	low := strings.ToLower(cutText(first, 300))
	if containsAny(low, p.lists["edited"]...) && !containsAny(low, p.lists["not-edited"]...) {
		return Judgement{Outcome: OK, Rule: "edited", Sure: true}
	}
	rule, bad := p.statement(text)
	if !bad {
		rule = p.endFailureRule(text)
	}
	if rule != "" {
		return Judgement{Outcome: Error, Rule: "text:" + rule}
	}
	if hasPrefixOf(low, p.lists["edit-shown"]) {
		return Judgement{Outcome: OK, Rule: "edited", Sure: true}
	}
	if len(first) < 300 && containsAny(low, p.lists["edit-failed"]...) {
		return Judgement{Outcome: Error, Rule: "text:edit"}
	}
	return Judgement{Outcome: OK}
}

// otherJudgement judges the result of a browser or of a tool of a domain by its first words, by the last lines,
// and by the title and the error lines of a page.
func otherJudgement(text string, call *toolCall) Judgement {
	p := call.phrases
	if r := p.unframe(text); r.hasCode {
		return exitJudgement(r, call)
	}
	switch rule, bad := p.statement(text); {
	case bad && call.purpose == purposeOther && call.isContent(rule, text):
		return Judgement{Outcome: OK, Rule: "content"}
	case bad:
		return Judgement{Outcome: Error, Rule: "text:" + rule}
	}
	if rule := call.domainFailureRule(text); rule != "" {
		return Judgement{Outcome: Error, Rule: "text:" + rule}
	}
	if !call.returnsRecords() && strings.Count(text, "\n") < 4 && p.timedOut(text) {
		return Judgement{Outcome: Error, Rule: "text:timeout"}
	}
	if rule := p.endFailureRule(text); rule != "" {
		return Judgement{Outcome: Error, Rule: "text:" + rule}
	}
	if strings.HasPrefix(text, "Traceback (most recent call last)") {
		return Judgement{Outcome: Error, Rule: "text:traceback"}
	}
	page := call.purpose == purposeWeb || strings.HasPrefix(text, "Address: ")
	if rule, bad := p.pageFails(text, page); bad {
		return Judgement{Outcome: Error, Rule: "page:" + rule}
	}
	if p.allShellErrors(text) && !call.nameMatches("text") {
		return Judgement{Outcome: Error, Rule: "text:shell"}
	}
	return Judgement{Outcome: OK}
}

// clip returns both ends of a text that is longer than 2*maxText.
func clip(text string) string {
	if len(text) <= 2*maxText {
		return text
	}
	return text[:maxText] + "\n...\n" + text[len(text)-maxText:]
}

// Outcome is the outcome of a tool call.
type Outcome string

// Outcomes.
const (
	OK      Outcome = "ok"
	Error   Outcome = "error"
	Pending Outcome = "pending" // continues in the background: neither success nor failure
	Refusal Outcome = "refusal" // a person or a rule did not allow the call: no failure of the call
)

// Judgement is the outcome of one tool result, with the rule that decided.
type Judgement struct {
	Outcome Outcome
	Rule    string  // rule that decided; "" for a success by default
	By      Refuser // origin of a refusal; NoRefuser for other outcomes
	Code    int     // exit code or HTTP status, where the rule read a code
	Sure    bool    // the result itself reports the success
}

// Refuser is the origin of a refusal.
type Refuser string

// Refusers. Only the refusal of a person is feedback.
const (
	NoRefuser Refuser = ""
	Person    Refuser = "person"   // a person at the keyboard refused or interrupted
	Policy    Refuser = "policy"   // a rule of the configuration
	Headless  Refuser = "headless" // no person was present to ask
)
