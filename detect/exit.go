package detect

import (
	"strconv"
	"strings"
)

// shellResult is the result of a command, its harness's frame taken off.
type shellResult struct {
	body  string // what the command itself printed
	code  int
	coded bool // the frame told an exit code
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
	if inner, ok := tagged(text, "<returncode>", "</returncode>"); ok {
		r.set(inner)
		if out, ok := tagged(text, "<output>", "</output>"); ok {
			r.body = out
		}
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

// framedCode reads a line that is nothing but an exit code.
func framedCode(t string, r *shellResult) bool {
	for _, form := range []string{"Process exited with code ", "Exit code: ", "Exit code ", "exitcode: ", "Exit Code: ", "exit_code: ", "exit code: ", "exit code ", "Return code: "} {
		rest, ok := strings.CutPrefix(t, form)
		if !ok {
			continue
		}
		num, note, _ := strings.Cut(rest, " ")
		if _, err := strconv.Atoi(num); err != nil || note != "" && !strings.HasPrefix(note, "(") {
			continue
		}
		r.set(num)
		return true
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
	bare := strings.Trim(t, "[]<>.")
	for _, form := range []string{
		"Command exited with code ", "Command finished with exit code ", "The command completed with exit code ", "Process exited with code ",
		"Process exited with exit code ", "Command completed with exit code ", "Command failed with exit code ", "exited with exit code ", "Exit code: ", "Exit Code: ", "exit code: ", "exit_code: ",
		"exit code ", "Exited with code ", "Return code: ", "Process finished with exit code ", "Script exited with code ",
	} {
		if num, ok := strings.CutPrefix(bare, form); ok {
			return r.setIf(num)
		}
	}
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
