package detect

import (
	"slices"
	"strconv"
	"strings"
)

// A frame consists of the lines and tags that a harness adds to a command's output.

// shellResult is a command's result without its frame.
type shellResult struct {
	phrases *phrases
	body    string
	code    int // valid if hasCode is true
	hasCode bool
	isEmpty bool // the command printed nothing

	timedOut bool // the harness ended the command after a time-out
}

// scriptFramePrefix is the start of a result if the call was a Codex program (see scriptCommands).
const scriptFramePrefix = "Script "

const maxFrameLines = 12 // read at each end of a result

// unframe removes the frame of a known harness from a result, and returns the output and the exit code. It never
// mistakes a number in the output for an exit code.
func (p *phrases) unframe(text string) shellResult {
	text, timedOut := p.withoutQuotedCommand(text)
	r := shellResult{phrases: p, body: text, timedOut: timedOut}
	if !r.readTags(text) { // mini-SWE-agent and others write tags
		if r.readHead(); strings.HasPrefix(text, scriptFramePrefix) {
			r.readScript()
		}
		r.readTail()
	}
	if first, rest, _ := strings.Cut(strings.TrimLeft(r.body, " \n"), "\n"); hasAnyPrefix(first, p.lists["banner"]) {
		r.body = rest
	}
	trimmed := strings.TrimSpace(r.body)
	r.isEmpty = trimmed == "" || p.inList("empty", trimmed)
	return r
}

// withoutQuotedCommand removes the command, which can have several lines, from a harness's time-out message at the
// start of a text, such as "The last command <command>make</command> timed out". ok is false for any other text.
func (p *phrases) withoutQuotedCommand(text string) (rest string, ok bool) {
	const maxLead = 24
	lead := strings.IndexAny(cutText(text, maxLead), "<'\"`")
	if lead <= 0 || !p.inList("time-of", strings.ToLower(strings.TrimSpace(text[:lead]))) {
		return text, false
	}
	end := text[lead : lead+1]
	if end == "<" {
		end = "</command>"
	}
	for after, found := text[lead+1:], true; found; {
		if _, after, found = strings.Cut(after, end); !strings.HasPrefix(after, " ") {
			continue
		}
		line, _, _ := strings.Cut(cutText(after, 300), "\n")
		if containsAny(strings.ToLower(line), p.lists["time-up"]...) {
			return text[:lead] + after[1:], true
		}
	}
	return text, false
}

func (r *shellResult) setCode(num string) bool {
	num = strings.TrimSpace(num)
	if num == "" { // the usual case; Atoi would allocate an error
		return false
	}
	n, err := strconv.Atoi(num)
	if err == nil {
		r.code, r.hasCode = n, true
	}
	return err == nil
}

// readHead removes the frame lines before the output. If they contain an exit code, readHead reads the code. Frame
// lines without a code begin with a phrase in the "frame-head" list.
func (r *shellResult) readHead() {
	rest := r.body
	for range maxFrameLines {
		line, after, more := strings.Cut(rest, "\n")
		t := strings.TrimSpace(line)
		switch {
		case r.readCodeLine(t), r.readCodeSentence(t):
		case hasAnyPrefix(t, r.phrases.lists["frame-head"]):
		case t == "Script failed":
			r.setCode("1")
		case strings.HasPrefix(t, "Output:") || strings.HasPrefix(t, "Code output:"):
			_, out, _ := strings.Cut(line, "utput:")
			r.body = out
			if more {
				r.body += "\n" + after
			}
			return
		default:
			r.body = rest
			return
		}
		rest = after
	}
	r.body = rest
}

// readTags reads a result in tags, such as <returncode>1</returncode><output>...</output>.
func (r *shellResult) readTags(text string) bool {
	if !strings.Contains(text, "</") {
		return false
	}
	for _, name := range []string{"returncode", "exit_code", "exitcode", "exit_status"} {
		if inner, _ := betweenTags(text, "<"+name+">", "</"+name+">"); r.setCode(inner) {
			break
		}
	}
	if text[0] == '<' && !r.hasCode {
		r.readAttribute(text)
	}
	var printed []string
	for _, part := range []string{"output", "stdout", "stderr"} {
		// If there is no exit code, <output> may be a tag in some document.
		if out, ok := betweenTags(text, "<"+part+">", "</"+part+">"); ok && (r.hasCode || part != "output") {
			printed = append(printed, out)
		}
	}
	switch {
	case len(printed) == 0:
		return r.hasCode
	case !r.hasCode: // the text before the tags is also output
		text, _, _ = strings.Cut(text, "<stdout>")
		text, _, _ = strings.Cut(text, "<stderr>")
		printed = append([]string{text}, printed...)
	}
	r.body = strings.Join(printed, "\n")
	return true
}

func (r *shellResult) readAttribute(text string) {
	tag, _, _ := strings.Cut(cutText(text, 200), ">")
	for _, name := range []string{"exit_code=", "exitcode=", "exit-code=", "returncode=", "exit_status="} {
		if _, value, ok := strings.Cut(strings.ToLower(tag), " "+name); ok {
			value = strings.TrimLeft(value, `"'`)
			if end := strings.IndexAny(value, "\"' \t\r\n/"); end >= 0 {
				value = value[:end]
			}
			r.setCode(value)
		}
	}
}

// readCodeSentence reads "Command executed in terminal. Exit code: 1" and "[The command completed with exit code
// 130.]". Most such lines begin with a phrase in the "code-of" list ("the command"). The code comes after a phrase in
// the "code-in-line" list. If a signal ended the command, the exit code is 137.
func (r *shellResult) readCodeSentence(t string) bool {
	if len(t) < 12 || len(t) > 300 {
		return false
	}
	low := strings.ToLower(strings.TrimLeft(withoutSymbols(t), "[<(`*"))
	if !startsWithPhrase(low, r.phrases.lists["code-of"]...) && !strings.Contains(low, " returned non-zero exit status ") {
		return false
	}
	for _, form := range r.phrases.lists["code-in-line"] {
		_, rest, ok := strings.Cut(low, form)
		number := rest[:len(rest)-len(strings.TrimLeft(rest, "-0123456789"))]
		rest = rest[len(number):]
		after := strings.TrimLeft(rest, ".)]>`*:\"")
		switch {
		case !ok || number == "" || rest != "" && rest == after:
		case after != "" && strings.Trim(number, "0") == "": // the sentence continues after exit code 0
		case r.setCode(number):
			return true
		}
	}
	return containsAny(low, " by signal ") && r.setCode("137")
}

// readCodeLine reads "Exit code: 1", "[EXIT_CODE=2]" and "Process exited with code 3 (killed)".
func (r *shellResult) readCodeLine(t string) bool {
	if len(t) < 4 || len(t) > 80 {
		return false
	}
	plain := withoutSymbols(t)
	bare := strings.Trim(plain, "[]<>().*#= ")
	bare, _, _ = strings.Cut(bare, " (")
	label := strings.TrimRight(bare, "0123456789")
	number := bare[len(label):]
	label = strings.TrimSuffix(label, "-")
	key := strings.Map(func(c rune) rune {
		if strings.ContainsRune(" _-:=", c) {
			return -1
		}
		return c
	}, strings.ToLower(label))
	marked := strings.IndexByte("[<(", t[0]) >= 0 || plain != t || strings.HasPrefix(t, "Exit status ")
	return r.phrases.isCodeLabel(key, marked) && r.setCode(number)
}

// isCodeLabel reports whether a label before a number names an exit code. Scripts and go run also print labels such as
// "exit status". Such a label counts only if marked is true, which means that a bracket, a symbol or a capital shows
// that a harness wrote the line.
func (p *phrases) isCodeLabel(key string, marked bool) bool {
	if p.inList("code", key) || marked && p.inList("code-marked", key) {
		return true
	}
	return slices.ContainsFunc(p.lists["code-of"], func(who string) bool {
		rest, ok := strings.CutPrefix(key, strings.ReplaceAll(who, " ", ""))
		return ok && p.inList("code-behind", rest)
	})
}

func (r *shellResult) readTail() {
	rest := strings.TrimRight(r.body, " \t\r\n")
	for range maxFrameLines {
		start := strings.LastIndexByte(rest, '\n') + 1
		if !r.readTailLine(strings.TrimSpace(rest[start:])) {
			break
		}
		rest = strings.TrimRight(rest[:start], " \t\r\n")
	}
	r.body = rest
}

// readTailLine reports whether a line after the output is a frame line. If the line has an exit code, readTailLine
// reads the code. Frame lines without a code begin with a phrase in the "frame-tail" list.
func (r *shellResult) readTailLine(t string) bool {
	if hasAnyPrefix(t, r.phrases.lists["frame-tail"]) || r.readCodeLine(t) || r.readCodeSentence(t) {
		return true
	}
	bare := strings.Trim(t, "[]<>.")
	if strings.HasPrefix(bare, "shellId: ") { // Copilot numbers the shells
		if _, num, ok := strings.Cut(bare, "completed with exit code "); ok {
			return r.setCode(num)
		}
	}
	return false
}

// leadingCode returns the exit code after a phrase in the "code-in-line" list, or 0.
func (p *phrases) leadingCode(first string) int {
	for _, form := range p.lists["code-in-line"] {
		_, rest, _ := strings.Cut(first, form)
		end := len(rest) - len(strings.TrimLeft(rest, "-0123456789"))
		if end == 0 {
			continue
		}
		if n, err := strconv.Atoi(rest[:end]); err == nil {
			return n
		}
	}
	return 0
}

func betweenTags(text, open, end string) (string, bool) {
	_, rest, ok := strings.Cut(text, open)
	if !ok {
		return "", false
	}
	inner, _, ok := strings.Cut(rest, end)
	return inner, ok
}

// unwrapText removes the headings, assignments, prompts and reminders that harnesses write around a result.
func unwrapText(text string) string {
	text = strings.TrimSpace(text)
	text = strings.TrimSpace(strings.TrimPrefix(text, "OBSERVATION:"))
	text = strings.TrimSpace(strings.TrimPrefix(text, "### Result\n")) // Playwright
	if text != "" && text[0] == '[' {                                  // Cline and Roo Code: "[execute_command for 'make'] Result:"
		if first, rest, _ := strings.Cut(text, "\n"); strings.HasSuffix(strings.TrimSpace(first), "] Result:") {
			text = strings.TrimSpace(rest)
		}
	}
	text = trimPrompt(text)
	if i := strings.Index(text, "<system-reminder>"); i >= 0 {
		if end := strings.LastIndex(text, "</system-reminder>"); end > i && len(text)-end < 64 {
			text = strings.TrimSpace(text[:i])
		}
	}
	if inner, ok := assignedValue(text); ok {
		return strings.TrimSpace(inner)
	}
	if i := strings.Index(text, "}\n\n["); i > 0 && text[0] == '{' && strings.HasSuffix(text, "]") {
		return text[:i+1] // drops the harness's note after the envelope
	}
	return strings.TrimSpace(unescapeLines(text))
}

// unescapeLines resolves the escapes in a text that a framework wrote as a JSON string. A single quoted word, such as
// "failed", stays unchanged, because it may be a value.
func unescapeLines(text string) string {
	if strings.Contains(text, "\n") {
		return text
	}
	if n := len(text); n > 1 && text[0] == '"' && text[n-1] == '"' {
		inner := text[1 : n-1]
		isSentence := strings.Contains(inner, " ") && !strings.Contains(inner, `"`)
		if isSentence || strings.Contains(inner, `\n`) {
			return unescape(inner)
		}
	}
	if strings.Count(text, `\n`) < 2 || text[0] == '{' || text[0] == '[' {
		return text
	}
	return unescape(text)
}

// trimPrompt removes the prompt that SWE-agent's shell prints after each result.
func trimPrompt(text string) string {
	rest, ok := strings.CutSuffix(text, "bash-$")
	if !ok {
		return text
	}
	if i := strings.LastIndex(rest, "(Open file:"); i >= 0 && strings.Count(rest[i:], "\n") <= 3 {
		rest = rest[:i]
	}
	return strings.TrimSpace(rest)
}

// assignedValue reads `# name = "value"`, which harnesses print if they store results in variables.
func assignedValue(text string) (string, bool) {
	rest, ok := strings.CutPrefix(text, "# ")
	if !ok {
		return "", false
	}
	name, value, ok := strings.Cut(rest, " = ")
	if !ok || strings.ContainsAny(name, " \n") {
		return "", false
	}
	if len(value) > 1 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0] {
		return unescape(value[1 : len(value)-1]), true
	}
	return value, true
}

// readScript reads a Codex program's output, one JSON line per command. The last exit code other than 0 becomes the
// program's exit code.
func (r *shellResult) readScript() {
	var printed []string
	for line := range strings.Lines(strings.TrimSpace(r.body)) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		v, ok := parseLenient(line)
		code, hasCode := v.get("exit_code")
		output, hasOutput := v.get("output")
		if !ok || !hasCode || !hasOutput || code.kind != numberValue || output.kind != stringValue {
			return
		}
		if !r.hasCode || code.num != 0 {
			r.code, r.hasCode = int(code.num), true
		}
		printed = append(printed, output.text())
	}
	if len(printed) > 0 {
		r.body = strings.Join(printed, "\n")
	}
}
