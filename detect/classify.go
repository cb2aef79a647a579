package detect

import (
	"strings"
)

const maxText = 48 << 10 // bytes read at each end of a result, because tools report failures there

// Classify judges a tool result. isError is the API's error flag: +1 for an error, -1 for no error, 0 for no flag.
func Classify(toolName, args, text string, isError int8) Judgement {
	p := compiledPhrases()
	call := p.analyseCall(toolName, args)
	return p.classify(&call, text, isError)
}

func (p *phrases) classify(call *toolCall, text string, isError int8) Judgement {
	text = cutMiddle(strings.TrimSpace(text))
	if refuser, rule := callRefusal(call, text); refuser != NoRefuser {
		return Judgement{Outcome: Refusal, Rule: "refusal:" + rule, Refuser: refuser}
	}
	if rule, ok := call.phrases.readPending(text); ok && !call.readsFile() {
		return Judgement{Outcome: Pending, Rule: "pending:" + rule}
	}
	switch {
	case isError > 0:
		return judgeFlagged(call, text)
	case isError < 0 && call.purpose != purposeExec && call.purpose != purposeOther && call.purpose != purposeWeb:
		return Judgement{Outcome: OK, Rule: "flag", ReportsSuccess: true}
	}
	return judgeText(text, call, 0)
}

func callRefusal(call *toolCall, text string) (Refuser, string) {
	if call.readsFile() {
		return NoRefuser, ""
	}
	if refuser, rule := call.phrases.readRefusal(text); refuser != NoRefuser || call.purpose != purposeExec {
		return refuser, rule
	}
	return call.phrases.readInterrupt(text)
}

func (c *toolCall) readsFile() bool { return c.purpose == purposeRead || c.purpose == purposeSearch }

// judgeFlagged judges a result that the API flags as an error. The result is an error unless the exit code means
// "nothing found", or a field reports a refusal or a running task.
func judgeFlagged(call *toolCall, text string) Judgement {
	if call.purpose == purposeExec {
		if r := call.phrases.unframe(text); r.code != 0 {
			return judgeExit(r, call)
		}
	}
	if v, ok := parseLenient(text); ok {
		if judgement, found := judgeEnvelope(v, call, 0); found && judgement.Outcome != OK {
			return judgement
		}
	}
	return Judgement{Outcome: Error, Rule: "flag"}
}

// judgeText judges a result's text. depth is the number of envelopes around the text (envelope.go).
func judgeText(text string, call *toolCall, depth int) Judgement {
	text = withoutProgressMeter(unwrapText(text))
	if depth > 3 || text == "" {
		return Judgement{Outcome: OK}
	}
	if depth > 0 {
		if refuser, rule := callRefusal(call, text); refuser != NoRefuser {
			return Judgement{Outcome: Refusal, Rule: "refusal:" + rule, Refuser: refuser}
		}
	}
	if text[0] == '{' || text[0] == '[' && !isProgress(text) {
		if v, ok := parseLenient(text); ok && call.isEnvelope(v) {
			if judgement, found := judgeEnvelope(v, call, depth); found {
				return judgement
			}
			if call.reportsFailureInWords(text) {
				return Judgement{Outcome: Error, Rule: "json:answer"}
			}
			return Judgement{Outcome: OK, Rule: "json"}
		}
	}
	switch call.purpose {
	case purposeExec, purposeWait:
		return judgeExec(text, call)
	case purposeSearch:
		if call.quotesQuery(text) {
			return Judgement{Outcome: OK, Rule: "matches"}
		}
		return call.phrases.judgeRead(text)
	case purposeRead:
		return call.phrases.judgeRead(text)
	case purposeEdit:
		return call.phrases.judgeEdit(text)
	case purposePlan: // an agent's own notes may describe any error
		j := call.phrases.judgeRead(text)
		if j.Rule == "text:error-first" || j.Rule == "text:exception-first" {
			return j
		}
		return Judgement{Outcome: OK}
	case purposeWeb, purposeOther:
		return judgeOther(text, call)
	}
	return Judgement{Outcome: OK}
}

// withoutProgressMeter removes curl's progress meter at the start of a text.
func withoutProgressMeter(text string) string {
	for strings.HasPrefix(text, "% Total ") || isProgressMeterLine(text) {
		_, text, _ = strings.Cut(text, "\n")
		text = strings.TrimSpace(text)
	}
	return text
}

func isProgressMeterLine(text string) bool {
	line, _, _ := strings.Cut(text, "\n")
	return strings.HasPrefix(line, "Dload  Upload") || line != "" && isDigit(line[0]) && strings.Contains(line, "--:--:-- ")
}

// quotesQuery reports whether the first line contains the words that the call searches for. Such a line is a match and
// not an error message.
func (c *toolCall) quotesQuery(text string) bool {
	pattern, _ := c.args.get("pattern", "query", "regex", "search")
	first, _, _ := strings.Cut(text, "\n")
	words := addLongestWords(nil, pattern.text())
	for _, w := range words {
		if !strings.Contains(strings.ToLower(first), strings.ToLower(w)) {
			return false
		}
	}
	return len(words) > 0
}

// isEnvelope reports whether a tool or harness wrote v to report the outcome (envelope.go). JSON from a file or from a
// read-only program is data instead.
func (c *toolCall) isEnvelope(v lenientValue) bool {
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

func judgeExec(text string, call *toolCall) Judgement {
	r := call.phrases.unframe(text)
	if !r.hasCode {
		first, _, _ := strings.Cut(r.body, "\n")
		if code := call.phrases.leadingCode(first); len(first) < 300 && code != 0 {
			if _, bad := call.phrases.errorMessageRule(first); bad {
				return Judgement{Outcome: Error, Rule: "exit-code", Code: code}
			}
		}
	}
	judgement := judgeExit(r, call)
	if judgement.Outcome == OK && !r.hasCode && hasAnyPrefix(text, call.phrases.lists["call-fails"]) {
		return Judgement{Outcome: Error, Rule: "text:call"}
	}
	return judgement
}

// judgeExit judges a command by the exit code. If the code is missing, or if a later program in the command line hides
// it, judgeExit judges the output.
func judgeExit(r shellResult, call *toolCall) Judgement {
	switch {
	case r.timedOut:
		return Judgement{Outcome: Error, Rule: "text:timeout"}
	case r.code == 1 && call.phrases.inList("program quiet", call.shell.lastProgram) && (r.isEmpty || call.shell.answersNo(r.body)):
		return Judgement{Outcome: OK, Rule: "nothing-found", Code: 1, ReportsSuccess: true}
	case r.code != 0:
		return Judgement{Outcome: Error, Rule: "exit-code", Code: r.code}
	case r.isEmpty:
		return Judgement{Outcome: OK, Rule: successRule(r), ReportsSuccess: r.hasCode && !call.shell.statusMasked}
	case call.purpose == purposeExec && call.shell.readOnly:
		if !r.hasCode && call.phrases.endsInTimeOut(r.body) {
			return Judgement{Outcome: Error, Rule: "text:timeout"}
		}
		if call.shell.hasOnlyProgramErrors(r.body) || !r.hasCode && call.shell.endsInProgramError(r.body) {
			return Judgement{Outcome: Error, Rule: "text:shell"}
		}
		return Judgement{Outcome: OK, Rule: successRule(r), ReportsSuccess: r.hasCode}
	case r.hasCode && !call.shell.statusMasked:
		// A script may print an error and still exit with 0.
		if rule, bad := call.phrases.errorMessageRule(r.body); bad && rule != "no-such" && rule != "invalid" {
			return Judgement{Outcome: Error, Rule: "soft:" + rule}
		}
		return Judgement{Outcome: OK, Rule: "exit-code", ReportsSuccess: true}
	}
	if call.phrases.reportsTimeOut(r.body) {
		return Judgement{Outcome: Error, Rule: "text:timeout"}
	}
	if rule, bad := call.phrases.outputFailureRule(r.body); bad {
		return Judgement{Outcome: Error, Rule: "text:" + rule}
	}
	if call.purpose == purposeExec && call.shell.hasProgramError(r.body) {
		return Judgement{Outcome: Error, Rule: "text:command"}
	}
	if rule := call.phrases.endFailureRule(r.body); rule != "" {
		return Judgement{Outcome: Error, Rule: "text:" + rule}
	}
	if hasAnyPrefix(strings.ToLower(cutText(r.body, 20)), []string{"<!doctype html", "<html"}) && call.phrases.hasErrorTitle(cutText(r.body, maxPageHead)) {
		return Judgement{Outcome: Error, Rule: "text:page"}
	}
	return Judgement{Outcome: OK, Rule: successRule(r), ReportsSuccess: r.hasCode || call.phrases.endsInSuccess(r.body)}
}

// reportsTimeOut reports whether the first or the last line is a harness's time-out message. Lines that consist only of
// a tag are skipped.
func (p *phrases) reportsTimeOut(body string) bool {
	lines := strings.Split(body, "\n")
	for len(lines) > 1 && isTag(lines[0]) {
		lines = lines[1:]
	}
	for len(lines) > 1 && (strings.TrimSpace(lines[len(lines)-1]) == "" || isTag(lines[len(lines)-1])) {
		lines = lines[:len(lines)-1]
	}
	return p.isTimeOutLine(lines[0]) || p.isTimeOutLine(lines[len(lines)-1])
}

// isTimeOutLine reports whether a line begins with a phrase in the "time-of" list (such as "the command") and contains
// a phrase in the "time-up" list (such as "took too long").
func (p *phrases) isTimeOutLine(line string) bool {
	lowerLine := strings.ToLower(cutText(withoutSymbols(plainLine(line)), 300))
	lowerLine = strings.TrimLeft(lowerLine, "[<(./ ")
	for _, lead := range []string{"error>", "error: "} {
		lowerLine = strings.TrimPrefix(lowerLine, lead)
	}
	return hasAnyPrefix(lowerLine, p.lists["time-of"]) && containsAny(lowerLine, p.lists["time-up"]...)
}

func isTag(line string) bool {
	line = strings.TrimSpace(line)
	return len(line) > 2 && line[0] == '<' && line[len(line)-1] == '>' && !strings.ContainsAny(line, " ")
}

// endsInTimeOut reports whether a read-only command's output is a time-out message, or ends with one in brackets. Any
// other time-out message may be part of a file that the command printed.
func (p *phrases) endsInTimeOut(body string) bool {
	body = strings.TrimSpace(body)
	last := body[strings.LastIndexByte(body, '\n')+1:]
	return (last == body || strings.IndexByte("[<", last[0]) >= 0) && p.reportsTimeOut(last)
}

func successRule(r shellResult) string {
	if r.hasCode {
		return "exit-code"
	}
	return ""
}

// judgeRead judges the result of reading a file. If the call failed, the text is a short error message, or begins with
// <tool_use_error>.
func (p *phrases) judgeRead(text string) Judgement {
	if len(text) > 600 || strings.Count(text, "\n") > 5 {
		if strings.HasPrefix(text, "<tool_use_error>") {
			return Judgement{Outcome: Error, Rule: "text:error-first"}
		}
		return Judgement{Outcome: OK}
	}
	if rule, bad := p.errorMessageRule(text); bad {
		return Judgement{Outcome: Error, Rule: "text:" + rule}
	}
	if _, inTag := betweenTags(text, "<error>", "</error>"); inTag && text[0] == '<' && !strings.Contains(text, "<content") { // Roo Code
		return Judgement{Outcome: Error, Rule: "text:error-tag"}
	}
	if p.hasOnlyShellErrors(text) {
		return Judgement{Outcome: Error, Rule: "text:shell"}
	}
	return Judgement{Outcome: OK}
}

func (p *phrases) judgeEdit(text string) Judgement {
	first, _, _ := strings.Cut(text, "\n")
	low := strings.ToLower(cutText(first, 300))
	if containsAny(low, p.lists["edited"]...) && !containsAny(low, p.lists["not-edited"]...) {
		return Judgement{Outcome: OK, Rule: "edited", ReportsSuccess: true}
	}
	rule, bad := p.errorMessageRule(text)
	if !bad {
		rule = p.endFailureRule(text)
	}
	if rule != "" {
		return Judgement{Outcome: Error, Rule: "text:" + rule}
	}
	if hasAnyPrefix(low, p.lists["edit-shown"]) {
		return Judgement{Outcome: OK, Rule: "edited", ReportsSuccess: true}
	}
	if len(first) < 300 && containsAny(low, p.lists["edit-failed"]...) {
		return Judgement{Outcome: Error, Rule: "text:edit"}
	}
	return Judgement{Outcome: OK}
}

func judgeOther(text string, call *toolCall) Judgement {
	p := call.phrases
	if r := p.unframe(text); r.hasCode || r.timedOut {
		return judgeExit(r, call)
	}
	switch rule, bad := p.errorMessageRule(text); {
	case bad && call.purpose == purposeOther && call.isContent(rule, text):
		return Judgement{Outcome: OK, Rule: "content"}
	case bad:
		return Judgement{Outcome: Error, Rule: "text:" + rule}
	}
	if !call.returnsRecords() && strings.Count(text, "\n") < 4 && p.reportsTimeOut(text) {
		return Judgement{Outcome: Error, Rule: "text:timeout"}
	}
	if rule := p.endFailureRule(text); rule != "" {
		return Judgement{Outcome: Error, Rule: "text:" + rule}
	}
	if strings.HasPrefix(text, "Traceback (most recent call last)") {
		return Judgement{Outcome: Error, Rule: "text:traceback"}
	}
	if call.nameMatches("build") || call.nameMatches("test") || call.nameMatches("lint") {
		if rule, bad := p.outputFailureRule(text); bad {
			return Judgement{Outcome: Error, Rule: "text:" + rule}
		}
	}
	isPage := call.purpose == purposeWeb || strings.HasPrefix(text, "Address: ")
	if rule, bad := p.errorPageRule(text, isPage); bad {
		return Judgement{Outcome: Error, Rule: "page:" + rule}
	}
	if p.hasOnlyShellErrors(text) && !call.nameMatches("text") {
		return Judgement{Outcome: Error, Rule: "text:shell"}
	}
	if call.reportsFailureInWords(text) {
		return Judgement{Outcome: Error, Rule: "text:answer"}
	}
	return Judgement{Outcome: OK}
}

func cutMiddle(text string) string {
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
	Pending Outcome = "pending" // the call is still running
	Refusal Outcome = "refusal" // the call was not allowed (see Refuser), so the tool did not run
)

// Judgement is the outcome of a tool result, with the rule that decided it.
type Judgement struct {
	Outcome        Outcome
	Rule           string  // such as "exit-code" or "text:error-first"; "" if no rule matched
	Refuser        Refuser // origin of a refusal; NoRefuser for other outcomes
	Code           int     // exit code or HTTP status; 0 if the rule uses neither
	ReportsSuccess bool    // the result itself reports success; if false, OK only means that no failure was found
}

// Refuser is the origin of a refusal.
type Refuser string

// Refusers. Only a refusal by the user counts as feedback.
const (
	NoRefuser       Refuser = ""
	UserRefuser     Refuser = "person"   // the user refused or interrupted the call
	PolicyRefuser   Refuser = "policy"   // a rule in the configuration of the harness refused the call
	HeadlessRefuser Refuser = "headless" // the call needed the user's consent, but the harness runs without a user
)
