package detect

import "strings"

// maxText bounds what is read of a result, in bytes from either end: failures speak first or last.
const maxText = 48 << 10

// Classify judges a tool result by the call that it answers. isError is the wire's own flag: +1 it
// says error, -1 it says no error, 0 it does not say. Structure goes first (refusals, the flag,
// exit codes, fields), then text at anchored places.
func Classify(toolName, args, text string, isError int8) Judgement {
	p := wording()
	call := p.lookAt(toolName, args)
	return p.classify(&call, text, isError)
}

func (p *phrases) classify(call *toolCall, text string, isError int8) Judgement {
	text = clip(strings.TrimSpace(text))
	if by, rule := refused(call, text); by != NoRefuser {
		return Judgement{Outcome: Refusal, Rule: "refusal:" + rule, By: by}
	}
	if rule, ok := call.known.readPending(text); ok && !call.readsFile() {
		return Judgement{Outcome: Pending, Rule: "pending:" + rule}
	}
	switch {
	case isError > 0:
		return flagged(call, text)
	case isError < 0 && call.kind != kindExec && call.kind != kindOther && call.kind != kindWeb:
		return Judgement{Outcome: OK, Rule: "flag", Sure: true}
	}
	return classifyText(text, call, 0)
}

// refused says who did not let the call happen, NoRefuser when nobody did.
func refused(call *toolCall, text string) (Refuser, string) {
	if call.readsFile() {
		return NoRefuser, ""
	}
	if by, rule := call.known.readRefusal(text); by != NoRefuser || call.kind != kindExec {
		return by, rule
	}
	return call.known.brokenOff(text)
}

// readsFile: what came back is somebody's file, whatever it says.
func (c *toolCall) readsFile() bool { return c.kind == kindRead || c.kind == kindSearch }

// flagged: the wire says error. It is right but for refusals (seen before) and commands that tell
// "nothing found" by their exit code.
func flagged(call *toolCall, text string) Judgement {
	if call.kind == kindExec {
		if r := call.known.unframe(text); r.code != 0 {
			return exitJudgement(r, call)
		}
	}
	if v, ok := parseLenient(text); ok {
		if judgement, said := envelope(v, call, 0); said && judgement.Outcome != OK {
			return judgement
		}
	}
	return Judgement{Outcome: Error, Rule: "flag"}
}

// classifyText judges without a flag. depth counts how many envelopes have been opened.
func classifyText(text string, call *toolCall, depth int) Judgement {
	text = unwrapText(text)
	if depth > 3 || text == "" {
		return Judgement{Outcome: OK}
	}
	if depth > 0 {
		if by, rule := refused(call, text); by != NoRefuser {
			return Judgement{Outcome: Refusal, Rule: "refusal:" + rule, By: by}
		}
	}
	if text[0] == '{' || text[0] == '[' {
		if v, ok := parseLenient(text); ok && call.structured(v) {
			if judgement, said := envelope(v, call, depth); said {
				return judgement
			}
			return Judgement{Outcome: OK, Rule: "json"}
		}
	}
	switch call.kind {
	case kindExec, kindWait:
		return execJudgement(text, call)
	case kindSearch:
		if call.quotes(text) {
			return Judgement{Outcome: OK, Rule: "matches"}
		}
		return call.known.readJudgement(text)
	case kindRead:
		return call.known.readJudgement(text)
	case kindEdit:
		return call.known.editJudgement(text)
	case kindPlan: // the agent's own words may tell of any error
		j := call.known.readJudgement(text)
		if j.Rule == "text:error-first" || j.Rule == "text:exception-first" {
			return j
		}
		return Judgement{Outcome: OK}
	case kindWeb, kindOther:
		return otherJudgement(text, call)
	}
	return Judgement{Outcome: OK}
}

// quotes: the first line holds what was searched for, so it is a match and no message.
func (c *toolCall) quotes(text string) bool {
	pattern, _ := c.args.get("pattern", "query", "regex", "search")
	first, _, _ := strings.Cut(text, "\n")
	words := longest(nil, pattern.text())
	for _, w := range words {
		if !strings.Contains(strings.ToLower(first), strings.ToLower(w)) {
			return false
		}
	}
	return len(words) > 0
}

// structured: the JSON is the result's own, not the content of a file or the output of a program
// that prints one.
func (c *toolCall) structured(v lenientValue) bool {
	if v.kind == arrayValue && (c.readsFile() || c.kind == kindExec) {
		if len(v.vals) == 0 {
			return false
		}
		_, query := v.vals[0].get("query", "command")
		part, _ := v.vals[0].get("type")
		return query || part.raw == "text"
	}
	if !c.readsFile() && (c.kind != kindExec || !c.shell.readOnly) {
		return true
	}
	return len(v.keys) > 0 && c.known.areKeys("result", v.keys)
}

// execJudgement judges what a command or program printed.
func execJudgement(text string, call *toolCall) Judgement {
	r := call.known.unframe(text)
	if !r.coded {
		first, _, _ := strings.Cut(r.body, "\n")
		if code := call.known.leadingCode(first); len(first) < 300 && code != 0 {
			if _, bad := call.known.statement(first); bad {
				return Judgement{Outcome: Error, Rule: "exit-code", Code: code}
			}
		}
	}
	return exitJudgement(r, call)
}

// exitJudgement: the exit code decides, unless the command hides it; without one, or with a hidden
// one, the output does.
func exitJudgement(r shellResult, call *toolCall) Judgement {
	switch {
	case r.code == 1 && r.empty && call.known.is("program quiet", call.shell.last):
		return Judgement{Outcome: OK, Rule: "nothing-found", Code: 1, Sure: true}
	case r.code != 0:
		return Judgement{Outcome: Error, Rule: "exit-code", Code: r.code}
	case r.empty:
		return Judgement{Outcome: OK, Rule: codeRule(r), Sure: r.coded && !call.shell.masked}
	case call.kind == kindExec && call.shell.readOnly:
		if call.shell.complains(r.body) {
			return Judgement{Outcome: Error, Rule: "text:shell"}
		}
		return Judgement{Outcome: OK, Rule: codeRule(r), Sure: r.coded}
	case r.coded && !call.shell.masked:
		// Exit code 0, but the program's first words are that it could not: a script that prints
		// its error and ends well.
		if rule, bad := call.known.statement(r.body); bad && rule != "no-such" && rule != "invalid" {
			return Judgement{Outcome: Error, Rule: "soft:" + rule}
		}
		return Judgement{Outcome: OK, Rule: "exit-code", Sure: true}
	}
	if call.known.timedOut(r.body) {
		return Judgement{Outcome: Error, Rule: "text:timeout"}
	}
	if rule, bad := call.known.outputFails(r.body); bad {
		return Judgement{Outcome: Error, Rule: "text:" + rule}
	}
	if call.kind == kindExec && call.shell.ownError(r.body) {
		return Judgement{Outcome: Error, Rule: "text:command"}
	}
	return Judgement{Outcome: OK, Rule: codeRule(r), Sure: r.coded || call.known.soundsDone(r.body)}
}

// timedOut: the harness's own words at either end of what the command printed before its time was
// up.
func (p *phrases) timedOut(body string) bool {
	first, _, _ := strings.Cut(body, "\n")
	last := body[strings.LastIndexByte(strings.TrimRight(body, "\r\n "), '\n')+1:]
	for _, l := range []string{first, last} {
		l = strings.ToLower(cutText(strings.TrimLeft(strings.TrimSpace(l), "[<("), 160))
		if hasPrefixOf(l, p.lists["time-of"]) && hasWord(l, p.lists["time-up"]...) {
			return true
		}
	}
	return false
}

func codeRule(r shellResult) string {
	if r.coded {
		return "exit-code"
	}
	return ""
}

// readJudgement: content is content; only a result that is nothing but a message failed.
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
	if p.allComplain(text) {
		return Judgement{Outcome: Error, Rule: "text:shell"}
	}
	return Judgement{Outcome: OK}
}

// editJudgement: tools that change files speak in few, known sentences.
func (p *phrases) editJudgement(text string) Judgement {
	first, _, _ := strings.Cut(text, "\n")
	low := strings.ToLower(cutText(first, 300))
	if hasWord(low, p.lists["edited"]...) && !hasWord(low, p.lists["not-edited"]...) {
		return Judgement{Outcome: OK, Rule: "edited", Sure: true}
	}
	if rule, bad := p.statement(text); bad {
		return Judgement{Outcome: Error, Rule: "text:" + rule}
	}
	if hasPrefixOf(low, p.lists["edit-shown"]) {
		return Judgement{Outcome: OK, Rule: "edited", Sure: true}
	}
	if len(first) < 300 && hasWord(low, p.lists["edit-failed"]...) {
		return Judgement{Outcome: Error, Rule: "text:edit"}
	}
	return Judgement{Outcome: OK}
}

// otherJudgement judges a domain's own tool, an API, a page: its first words, a page's title, an
// error told on a line of its own.
func otherJudgement(text string, call *toolCall) Judgement {
	p := call.known
	if r := p.unframe(text); r.coded {
		return exitJudgement(r, call)
	}
	if rule, bad := p.statement(text); bad {
		return Judgement{Outcome: Error, Rule: "text:" + rule}
	}
	if strings.HasPrefix(text, "Traceback (most recent call last)") {
		return Judgement{Outcome: Error, Rule: "text:traceback"}
	}
	page := call.kind == kindWeb || strings.HasPrefix(text, "Address: ")
	if rule, bad := p.pageFails(text, page); bad {
		return Judgement{Outcome: Error, Rule: "page:" + rule}
	}
	if p.allComplain(text) {
		return Judgement{Outcome: Error, Rule: "text:shell"}
	}
	return Judgement{Outcome: OK}
}

// clip keeps the ends of a long text.
func clip(text string) string {
	if len(text) <= 2*maxText {
		return text
	}
	return text[:maxText] + "\n...\n" + text[len(text)-maxText:]
}
