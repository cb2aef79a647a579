package detect

import (
	"slices"
	"strconv"
	"strings"
)

// A frame is the lines and the tags that a harness adds to the output of a command.

// shellResult is the result of a command without the frame.
type shellResult struct {
	phrases *phrases
	body    string // output of the command
	code    int    // exit code; valid if hasCode is true
	hasCode bool   // the frame contains an exit code
	isEmpty bool   // the command printed nothing
}

// scriptFrame is the first word of the result of a Codex program that ran commands (see scriptCommands).
const scriptFrame = "Script "

// frameLines is the maximum number of lines at each end of a result that are read as lines of the frame.
const frameLines = 12

// unframe removes the frame of the harness from a result and returns the output and the exit code. Lines of a frame
// hold, for example, exit codes, chunk ids, wall times and the numbers of shells. Only the frames of known agents are
// removed. A number inside the output of the command is not an exit code.
func (p *phrases) unframe(text string) shellResult {
	r := shellResult{phrases: p, body: text}
	if !r.readTags(text) { // mini-SWE-agent and others write tags
		if r.readHead(); strings.HasPrefix(text, scriptFrame) {
			r.readScript()
		}
		r.readTail()
	}
	trimmed := strings.TrimSpace(r.body)
	r.isEmpty = trimmed == "" || p.inList("empty", trimmed)
	return r
}

// setCode sets the exit code, and reports whether num is a number.
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

// readHead reads and removes the lines of a frame before the output, up to the first line that belongs to no frame.
func (r *shellResult) readHead() {
	rest := r.body
	for range frameLines {
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

// readTags reads the exit code and the output that are enclosed in tags, and reports whether the result has such
// tags.
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
		// Without an exit code, <output> may be a tag of any document.
		if out, ok := betweenTags(text, "<"+part+">", "</"+part+">"); ok && (r.hasCode || part != "output") {
			printed = append(printed, out)
		}
	}
	switch {
	case len(printed) == 0:
		return r.hasCode
	case !r.hasCode: // the text before the tags is output, too
		text, _, _ = strings.Cut(text, "<stdout>")
		text, _, _ = strings.Cut(text, "<stderr>")
		printed = append([]string{text}, printed...)
	}
	r.body = strings.Join(printed, "\n")
	return true
}

// readAttribute reads the exit code in the first tag: <result exit_code="2">.
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

// readCodeSentence reads the exit code from a sentence that a harness writes about the command, and reports whether t
// is such a sentence: "Command executed in terminal within working directory '/srv'. Exit code: 1", "[The command
// completed with exit code 130. CTRL+C was sent.]". If the sentence says that a signal ended the command,
// readCodeSentence sets the exit code to 137.
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

// readCodeLine reads a line that consists of an exit code with a label, and reports whether the line has this
// form: "Exit code: 1", "[EXIT_CODE=2]", "Process exited with code 3 (killed)".
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
	// A harness puts a bracket or a symbol before the line, or begins the line with a capital.
	marked := strings.IndexByte("[<(", t[0]) >= 0 || plain != t || strings.HasPrefix(t, "Exit status ")
	return r.phrases.isCodeLabel(key, marked) && r.setCode(number)
}

// isCodeLabel reports whether key names an exit code. key is the label before a number, in lower case and without
// separators. marked is true if the line has the mark of a harness. Labels such as "exit" and "exit status" need the
// mark, because scripts and go run print such labels, too.
func (p *phrases) isCodeLabel(key string, marked bool) bool {
	if p.inList("code", key) || marked && p.inList("code-marked", key) {
		return true
	}
	return slices.ContainsFunc(p.lists["code-of"], func(who string) bool {
		rest, ok := strings.CutPrefix(key, strings.ReplaceAll(who, " ", ""))
		return ok && p.inList("code-behind", rest)
	})
}

// readTail reads and removes the lines of the frame at the end of the result.
func (r *shellResult) readTail() {
	rest := strings.TrimRight(r.body, " \t\r\n")
	for range frameLines {
		start := strings.LastIndexByte(rest, '\n') + 1
		if !r.readTailLine(strings.TrimSpace(rest[start:])) {
			break
		}
		rest = strings.TrimRight(rest[:start], " \t\r\n")
	}
	r.body = rest
}

// readTailLine reads a line at the end of a result, and reports whether the line belongs to the frame.
func (r *shellResult) readTailLine(t string) bool {
	if hasAnyPrefix(t, r.phrases.lists["frame-tail"]) || r.readCodeLine(t) || r.readCodeSentence(t) {
		return true
	}
	bare := strings.Trim(t, "[]<>.")
	if strings.HasPrefix(bare, "shellId: ") { // copilot: the number of the shell counts up
		if _, num, ok := strings.Cut(bare, "completed with exit code "); ok {
			return r.setCode(num)
		}
	}
	return false
}

// leadingCode returns the exit code that the first line of a result names, 0 for none.
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

// betweenTags returns the text between the first open and the next end. The result is false if either is missing.
func betweenTags(text, open, end string) (string, bool) {
	_, rest, ok := strings.Cut(text, open)
	if !ok {
		return "", false
	}
	inner, _, ok := strings.Cut(rest, end)
	return inner, ok
}

// unwrapText removes the text that harnesses write around a result, such as a heading, an assignment
// ("# var_3 = \"...\""), a prompt or a reminder.
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
		return text[:i+1] // note of a harness after its envelope
	}
	return strings.TrimSpace(unescapeLines(text))
}

// unescapeLines resolves the escapes of a text that a framework wrote as a JSON string, with or without quotes. A
// quoted text of a single word stays unchanged, because it may be a value.
func unescapeLines(text string) string {
	if strings.Contains(text, "\n") {
		return text
	}
	if n := len(text); n > 1 && text[0] == '"' && text[n-1] == '"' {
		inner := text[1 : n-1]
		isSentence := strings.Contains(inner, " ") && !strings.Contains(inner, `"`)
		if isSentence || strings.Contains(inner, `\n`) { // not a value such as "failed"
			return unescape(inner)
		}
	}
	if strings.Count(text, `\n`) < 2 || text[0] == '{' || text[0] == '[' {
		return text
	}
	return unescape(text)
}

// trimPrompt removes the prompt that the shell of SWE-agent prints after every result.
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

// assignedValue returns the value in a line `# name = "value"`. Harnesses that store results in variables print such
// lines.
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

// readScript reads the results of the commands that a Codex program ran. The result of each command is a JSON line with
// an exit code. The last exit code that is not 0 becomes the exit code of the program. A body with other lines stays
// unchanged.
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
