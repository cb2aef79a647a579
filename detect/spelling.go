package detect

import (
	"math"
	"slices"
	"strings"
	"sync"

	"precept/internal/shell"
)

// canonicalLine returns the form that equivalent command lines share (command). This form has no quotes, comments,
// wrappers such as sudo, redirected errors or final filters such as tail. settings holds the folder and the variables
// that the line sets. In command, \x1f separates words, and \x1e separates commands. A line that is not plain stays
// unchanged.
func (p *phrases) canonicalLine(cmd string) (command, settings string) {
	if !isPlainLine(cmd) {
		return cmd, ""
	}
	line := shell.Parse(cmd)
	return p.canonicalParsedLine(cmd, &line)
}

// isPlainLine reports whether a line is short, and has no here-document, substitution or compound command.
func isPlainLine(cmd string) bool {
	if len(cmd) > maxCommand {
		return false
	}
	bare := cmd
	if strings.ContainsAny(cmd, ">&") {
		bare = withoutRedirection().Replace(cmd)
	}
	if strings.ContainsAny(bare, "<>(){}`&") {
		return false
	}
	for word := range strings.FieldsSeq(bare) {
		if isKeyword(word) {
			return false
		}
	}
	return true
}

// withoutRedirection removes "&&" and redirections of standard error, which a plain line can contain.
//
//nolint:gochecknoglobals // immutable
var withoutRedirection = sync.OnceValue(func() *strings.Replacer {
	return strings.NewReplacer("2>&1", "", "2>/dev/null", "", "2> /dev/null", "", "&&", "")
})

func (p *phrases) canonicalParsedLine(cmd string, line *shell.Line) (command, settings string) {
	if !line.Parsed {
		return cmd, ""
	}
	var parts, assigned []string
	filters := 0
	for _, c := range line.Commands {
		prog, args := p.program(c.Words)
		if prog == "" {
			continue
		}
		assigned = append(assigned, c.Assigns...)
		name := c.Words[len(c.Words)-len(args)-1]
		switch dir := name[:len(name)-len(prog)]; {
		case prog == "cd" && len(parts) == 0:
			assigned = append(assigned, strings.Join(args, " "))
			continue
		case prog == "set" && len(parts) == 0: // sets shell options
			continue
		case dir == "/bin/" || dir == "/usr/bin/" || dir == "/usr/local/bin/":
			name = prog
		}
		if len(parts) > 0 && c.Operator == "||" && len(args) == 0 && (prog == "true" || prog == ":") { // the command changes only the exit code
			continue
		}
		operator := strings.Replace(c.Operator, ";", "&&", 1)
		if len(parts) == 0 {
			operator = ""
		}
		if operator == "|" && slices.Contains([]string{"tail", "head", "cat", "less", "more", "tee"}, prog) {
			filters++
		} else {
			filters = 0
		}
		words := append([]string{p.canonicalProgram(name)}, args...)
		words = withoutRunner(words)
		words = slices.DeleteFunc(words, func(w string) bool { return p.inList("program wordy", w) })
		for i, w := range words {
			if len(w) > 1 && !strings.Contains(w, "://") { // a folder
				words[i] = strings.TrimSuffix(w, "/")
			}
		}
		parts = append(parts, strings.TrimLeft(operator+"\x1f", "\x1f")+strings.Join(words, "\x1f"))
	}
	if len(parts) == 0 {
		return cmd, ""
	}
	return strings.Join(parts[:len(parts)-filters], "\x1e"), strings.Join(assigned, "\x1f")
}

// withoutRunner removes "python -m" from "python -m pip", and "run" from "npm run test".
func withoutRunner(words []string) []string {
	switch {
	case len(words) <= 2:
	case words[0] == "python" && words[1] == "-m":
		return words[2:]
	case words[1] == "run" && slices.Contains([]string{"npm", "yarn", "pnpm", "bun"}, words[0]):
		return slices.Delete(words, 1, 2)
	}
	return words
}

func (p *phrases) canonicalProgram(name string) string {
	if base := strings.TrimRight(name, "0123456789."); base != name && (base == "pip" || p.inList("program interprets", base)) {
		return base
	}
	return name
}

func isKeyword(w string) bool {
	switch w {
	case "for", "while", "until", "if", "case", "select", "function", "[[":
		return true
	}
	return false
}

// sameCall reports whether two steps make the same call. If only one of them sets a folder or a variable, the setting
// is ignored, because a shell may have kept it from the other call. For most pairs, b's identity need not be computed,
// because the literals are compared first.
func sameCall(a, b *step) bool {
	if !b.memo.hasIdentity {
		result := &b.call.result
		if result.tool != a.call.result.tool ||
			slices.ContainsFunc(a.literals(), func(w string) bool { return !strings.Contains(result.args, w) }) {
			return false
		}
	}
	if a.identity() != b.identity() {
		return false
	}
	return a.memo.locationHash == b.memo.locationHash || a.memo.locationHash == 0 || b.memo.locationHash == 0
}

// sameCode reports whether two exit codes are equal. 0 is equal to any code, because a filter in a pipe hides the other
// program's code.
func sameCode(a, b int) bool { return foldCode(a) == foldCode(b) || a == 0 || b == 0 }

// foldCode returns an exit code in 16 bits, as a checkpoint stores it. A longer code from Windows, such as 3221225477
// (0xC0000005), becomes a number below the Unix codes.
func foldCode(code int) int {
	if code == int(int16(code)) { //nolint:gosec // the conversion tests whether the code fits
		return code
	}
	return math.MinInt16 | (code^code>>15)&math.MaxInt16
}
