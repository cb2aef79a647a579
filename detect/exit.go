package detect

import (
	"strconv"
	"strings"
)

// shellResult is the result of a command, its harness's frame taken off.
type shellResult struct {
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
func unframe(text string) shellResult {
	r := shellResult{body: text}
	if r.tags(text) {
		// mini-SWE-agent and others
	} else {
		if r.head(); strings.HasPrefix(text, scriptFrame) {
			r.script()
		}
		r.tail()
	}
	trimmed := strings.TrimSpace(r.body)
	r.empty = trimmed == "" || trimmed == "(no output)" || trimmed == "(empty)" || trimmed == "(no content)"
	return r
}

func (r *shellResult) set(num string) {
	if n, err := strconv.Atoi(strings.TrimSpace(num)); err == nil {
		r.code, r.coded = n, true
	}
}

// head reads the lines of a frame before the output. It stops at the first line that is not one of
// a frame's.
func (r *shellResult) head() {
	rest := r.body
	for range frameLines {
		line, after, more := strings.Cut(rest, "\n")
		t := strings.TrimSpace(line)
		switch {
		case t == "OBSERVATION:" || strings.HasPrefix(t, "Chunk ID:") || strings.HasPrefix(t, "Wall time:") || strings.HasPrefix(t, "Original token count:") ||
			strings.HasPrefix(t, "Total output lines:") || strings.HasPrefix(t, "Command: ") || strings.HasPrefix(t, "Directory: ") ||
			strings.HasPrefix(t, "Ran command: `"): // gptme
		case t == "Script completed" || strings.HasPrefix(t, "Wall time "): // codex, a program
		case t == "Script failed":
			r.set("1")
		case framedCode(t, r):
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
		if !more {
			r.body = ""
			return
		}
		rest = after
	}
	r.body = rest
}

// tags reads the code and the output from tags around them.
func (r *shellResult) tags(text string) bool {
	if strings.IndexByte(text, '<') < 0 {
		return false
	}
	for _, name := range []string{"returncode", "exit_code", "exitcode", "exit_status"} {
		inner, ok := tagged(text, "<"+name+">", "</"+name+">")
		if !ok {
			continue
		}
		if r.set(inner); !r.coded {
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

// framedCode reads a line that is nothing but an exit code.
func framedCode(t string, r *shellResult) bool {
	code, ok := codeLine(t)
	if ok {
		r.code, r.coded = code, true
	}
	return ok
}

// codeLine reads the code of a line that is nothing but that: "Exit code: 1", "[EXIT_CODE=2]",
// "Process exited with code 3 (killed)".
func codeLine(t string) (code int, ok bool) {
	if len(t) < 4 || len(t) > 80 {
		return 0, false
	}
	bare := strings.Trim(t, "[]<>().*#= ")
	bare, _, _ = strings.Cut(bare, " (")
	at := len(bare)
	for at > 0 && isDigit(bare[at-1]) {
		at--
	}
	if at == len(bare) || len(bare)-at > 10 {
		return 0, false
	}
	if at > 0 && bare[at-1] == '-' {
		at--
	}
	var key [40]byte
	n := 0
	for _, c := range []byte(bare[:at]) {
		switch {
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		case strings.IndexByte(" _-:=", c) >= 0:
			continue
		case c < 'a' || c > 'z':
			return 0, false
		}
		if n == len(key) {
			return 0, false
		}
		key[n] = c
		n++
	}
	if !saysCode(string(key[:n]), strings.IndexByte("[<(", t[0]) >= 0) {
		return 0, false
	}
	code, err := strconv.Atoi(bare[at:])
	return code, err == nil
}

// saysCode: the letters before a number say that it is how a command ended. Scripts say "exit 1"
// and go run "exit status 1": between brackets they are a harness's.
func saysCode(key string, marked bool) bool {
	switch key {
	case "exitcode", "exitvalue", "returncode", "exitedwithcode", "exitedwithstatus", "exitedwithexitcode":
		return true
	case "exit", "exitstatus", "exited", "rc":
		return marked
	}
	for _, who := range []string{"thecommand", "command", "process", "script", "program", "shell", "execution"} {
		if rest, ok := strings.CutPrefix(key, who); ok {
			switch rest {
			case "exitcode", "exitstatus", "returncode", "exitedwithcode", "exitedwithstatus", "exitedwithexitcode", "exitedwithexitstatus", "finishedwithcode", "finishedwithexitcode", "completedwithexitcode",
				"completedwithcode", "failedwithcode", "failedwithexitcode", "failedwithexitstatus", "returnedexitcode", "returnedcode", "returnedwithcode", "endedwithcode", "endedwithexitcode":
				return true
			}
		}
	}
	return false
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
		if start == 0 {
			break
		}
	}
	r.body = rest
}

// tailLine reads one line of a frame's end.
func (r *shellResult) tailLine(t string) bool {
	switch {
	case t == "":
		return true
	case strings.HasPrefix(t, "Signal: ") || strings.HasPrefix(t, "Process Group PGID:") || strings.HasPrefix(t, "Background PIDs:") || t == "Error: (none)": // qwen, gemini
		return true
	case strings.HasPrefix(t, "Shell cwd was reset to "): // claude
		return true
	case strings.HasPrefix(t, "[Current working directory:") || strings.HasPrefix(t, "[Python interpreter:"): // OpenHands
		return true
	}
	if framedCode(t, r) {
		return true
	}
	bare := strings.Trim(t, "[]<>.")
	if strings.HasPrefix(bare, "shellId: ") { // copilot: the shell's number counts up
		if _, num, ok := strings.Cut(bare, "completed with exit code "); ok {
			return r.setIf(num)
		}
	}
	return false
}

func (r *shellResult) setIf(num string) bool {
	before := r.coded
	r.coded = false
	r.set(num)
	if !r.coded {
		r.coded = before
		return false
	}
	return true
}

// leadingCode reads the forms in which a failed call's first line tells the code in the middle of a
// sentence.
func leadingCode(first string) (int, bool) {
	for _, form := range []string{"(exit code ", "(exit code: ", "with exit code ", "exited with code ", "returned exit code ", "exit status "} {
		_, rest, ok := strings.Cut(first, form)
		if !ok {
			continue
		}
		end := 0
		for end < len(rest) && (rest[end] >= '0' && rest[end] <= '9' || end == 0 && rest[end] == '-') {
			end++
		}
		if n, err := strconv.Atoi(rest[:end]); err == nil {
			return n, true
		}
	}
	return 0, false
}

func tagged(text, open, end string) (string, bool) {
	_, rest, ok := strings.Cut(text, open)
	if !ok {
		return "", false
	}
	inner, _, ok := strings.Cut(rest, end)
	return inner, ok
}
