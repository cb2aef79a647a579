package detect

import (
	"slices"
	"strconv"
	"strings"
)

// shellResult is the result of a command, its harness's frame taken off.
type shellResult struct {
	known *phrases
	body  string // what the command itself printed
	code  int
	coded bool // the frame holds an exit code
	empty bool // nothing was printed
}

// scriptFrame begins what came of a program that ran commands.
const scriptFrame = "Script "

// frameLines is how many lines at either end of a result may belong to the harness's frame.
const frameLines = 12

// unframe takes the harness's frame off: exit codes, chunk ids, wall times, shell numbers, the
// prompt at the end. The forms are those of the agents that are known; a number inside the
// command's own output is not an exit code.
func (p *phrases) unframe(text string) shellResult {
	r := shellResult{known: p, body: text}
	if !r.tags(text) { // of mini-SWE-agent and others
		if r.head(); strings.HasPrefix(text, scriptFrame) {
			r.script()
		}
		r.tail()
	}
	trimmed := strings.TrimSpace(r.body)
	r.empty = trimmed == "" || p.is("empty", trimmed)
	return r
}

// set takes the exit code, if it is a number.
func (r *shellResult) set(num string) bool {
	n, err := strconv.Atoi(strings.TrimSpace(num))
	if err == nil {
		r.code, r.coded = n, true
	}
	return err == nil
}

// head reads the lines of a frame before the output. It stops at the first line that is not one of
// a frame's.
func (r *shellResult) head() {
	rest := r.body
	for range frameLines {
		line, after, more := strings.Cut(rest, "\n")
		t := strings.TrimSpace(line)
		switch {
		case hasPrefixOf(t, r.known.lists["frame-head"]):
		case t == "Script failed":
			r.set("1")
		case r.framedCode(t):
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

// tags reads the code and the output from tags around them.
func (r *shellResult) tags(text string) bool {
	for _, name := range []string{"returncode", "exit_code", "exitcode", "exit_status"} {
		if inner, _ := tagged(text, "<"+name+">", "</"+name+">"); !r.set(inner) {
			continue
		}
		var printed []string
		for _, part := range []string{"output", "stdout", "stderr"} {
			if out, ok := tagged(text, "<"+part+">", "</"+part+">"); ok {
				printed = append(printed, out)
			}
		}
		if len(printed) > 0 {
			r.body = strings.Join(printed, "\n")
		}
		return true
	}
	return false
}

// framedCode reads a line that is nothing but an exit code: "Exit code: 1", "[EXIT_CODE=2]",
// "Process exited with code 3 (killed)".
func (r *shellResult) framedCode(t string) bool {
	if len(t) < 4 || len(t) > 80 {
		return false
	}
	bare := strings.Trim(t, "[]<>().*#= ")
	bare, _, _ = strings.Cut(bare, " (")
	says := strings.TrimRight(bare, "0123456789")
	number := bare[len(says):]
	says = strings.TrimSuffix(says, "-")
	key := strings.Map(func(c rune) rune {
		if strings.ContainsRune(" _-:=", c) {
			return -1
		}
		return c
	}, strings.ToLower(says))
	return r.known.saysCode(key, strings.IndexByte("[<(", t[0]) >= 0) && r.set(number)
}

// saysCode: the letters before a number say that it is how a command ended. Scripts say "exit 1"
// and go run "exit status 1": between brackets they are a harness's.
func (p *phrases) saysCode(key string, marked bool) bool {
	if p.is("code", key) || marked && p.is("code-marked", key) {
		return true
	}
	return slices.ContainsFunc(p.lists["code-of"], func(who string) bool {
		rest, ok := strings.CutPrefix(key, who)
		return ok && p.is("code-behind", rest)
	})
}

// tail takes the frame's lines off the end.
func (r *shellResult) tail() {
	rest := strings.TrimRight(r.body, " \t\r\n")
	for range frameLines {
		start := strings.LastIndexByte(rest, '\n') + 1
		if !r.tailLine(strings.TrimSpace(rest[start:])) {
			break
		}
		rest = strings.TrimRight(rest[:start], " \t\r\n")
	}
	r.body = rest
}

// tailLine reads one line of a frame's end.
func (r *shellResult) tailLine(t string) bool {
	if hasPrefixOf(t, r.known.lists["frame-tail"]) || r.framedCode(t) {
		return true
	}
	bare := strings.Trim(t, "[]<>.")
	if strings.HasPrefix(bare, "shellId: ") { // copilot: the shell's number counts up
		if _, num, ok := strings.Cut(bare, "completed with exit code "); ok {
			return r.set(num)
		}
	}
	return false
}

// leadingCode reads the forms in which a failed call's first line tells the code in the middle of a
// sentence; 0: it tells none.
func (p *phrases) leadingCode(first string) int {
	for _, form := range p.lists["code-in-line"] {
		_, rest, _ := strings.Cut(first, form)
		end := len(rest) - len(strings.TrimLeft(rest, "-0123456789"))
		if n, err := strconv.Atoi(rest[:end]); err == nil {
			return n
		}
	}
	return 0
}

func tagged(text, open, end string) (string, bool) {
	_, rest, ok := strings.Cut(text, open)
	if !ok {
		return "", false
	}
	inner, _, ok := strings.Cut(rest, end)
	return inner, ok
}

// unwrapText takes off what wrappers put around a result: a transcript's heading, an assignment ("#
// var_3 = \"...\""), reminders that harnesses append.
func unwrapText(text string) string {
	text = strings.TrimSpace(text)
	text = strings.TrimSpace(strings.TrimPrefix(text, "OBSERVATION:"))
	text = withoutPrompt(text)
	if i := strings.Index(text, "<system-reminder>"); i >= 0 {
		if end := strings.LastIndex(text, "</system-reminder>"); end > i && len(text)-end < 64 {
			text = strings.TrimSpace(text[:i])
		}
	}
	if inner, ok := assigned(text); ok {
		return strings.TrimSpace(inner)
	}
	if i := strings.Index(text, "}\n\n["); i > 0 && text[0] == '{' && strings.HasSuffix(text, "]") {
		return text[:i+1] // a harness's own note behind its envelope
	}
	return strings.TrimSpace(escapedLines(text))
}

// escapedLines undoes the escapes of a sentence, or of several lines, that a framework hands on as
// JSON writes it: as a string, with its quotes or without.
func escapedLines(text string) string {
	if strings.Contains(text, "\n") {
		return text
	}
	if n := len(text); n > 1 && text[0] == '"' && text[n-1] == '"' {
		inner := text[1 : n-1]
		sentence := strings.Contains(inner, " ") && !strings.Contains(inner, `"`)
		if sentence || strings.Contains(inner, `\n`) { // one word is a value: "failed"
			return unescape(inner)
		}
	}
	if strings.Count(text, `\n`) < 2 || text[0] == '{' || text[0] == '[' {
		return text
	}
	return unescape(text)
}

// withoutPrompt takes off the prompt that SWE-agent's shell prints after every result, whatever the
// tool.
func withoutPrompt(text string) string {
	rest, ok := strings.CutSuffix(text, "bash-$")
	if !ok {
		return text
	}
	if i := strings.LastIndex(rest, "(Open file:"); i >= 0 && strings.Count(rest[i:], "\n") <= 3 {
		rest = rest[:i]
	}
	return strings.TrimSpace(rest)
}

// assigned reads `# name = "value"`, the echo of harnesses that keep results in variables.
func assigned(text string) (string, bool) {
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

// script reads what a program's commands gave back: lines that are each a result with its exit
// code. The last one that failed speaks for all.
func (r *shellResult) script() {
	var printed []string
	for line := range strings.Lines(strings.TrimSpace(r.body)) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		v, ok := parseLenient(line)
		code, coded := v.get("exit_code")
		output, has := v.get("output")
		if !ok || !coded || !has || code.kind != numberValue || output.kind != stringValue {
			return
		}
		if !r.coded || code.num != 0 {
			r.code, r.coded = int(code.num), true
		}
		printed = append(printed, output.text())
	}
	if len(printed) > 0 {
		r.body = strings.Join(printed, "\n")
	}
}
