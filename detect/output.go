package detect

import (
	"slices"
	"strings"
)

// lastLines is the number of lines at the end of an output in which a program reports how it ended.
const lastLines = 4

// outputFailureRule returns the rule for a failure in a program's output. A tool's summary counts in any line. A single
// error counts only in the first line, in the last lines, or as a traceback at the end.
func (p *phrases) outputFailureRule(body string) (string, bool) {
	var lines []string
	for line := range strings.SplitSeq(body, "\n") {
		if t := plainLine(line); t != "" {
			lines = append(lines, t)
		}
	}
	if len(lines) == 0 || looksLikeCode(lines) {
		return "", false
	}
	succeeded := p.endsInSuccess(body)
	if rule, bad := p.errorMessageRule(lines[0]); bad && !succeeded && rule != "no-such" {
		return rule, true
	}
	if isNodeCrash(lines) {
		return "node", true
	}
	if endsInTraceback(body) {
		return "traceback", true
	}
	shellErrors := 0
	for i, t := range lines {
		if t == "╷" && i+1 < len(lines) && strings.HasPrefix(lines[i+1], "Error: ") {
			return "terraform", true // terraform draws a box around each error
		}
		rule, evidence := p.gradeLine(t)
		if evidence == noEvidence {
			rule, evidence = p.gradeLine(withoutSymbols(t))
		}
		switch {
		case evidence == strongEvidence && (!succeeded || i >= len(lines)-lastLines):
			return rule, true
		case evidence == weakEvidence && !succeeded && (i >= len(lines)-lastLines || i == 0 && rule == "command"):
			return rule, true
		case rule == "shell":
			shellErrors++
		case rule == "go-build" && i > 0 && strings.HasPrefix(lines[i-1], "# "):
			return rule, true
		}
	}
	if !succeeded && p.reportsFailure(lines[len(lines)-1]) {
		return "sign", true
	}
	return "shell", shellErrors*2 >= len(lines)
}

// reportsFailure matches "❌ Failed to cache the model", the last line of a script.
func (p *phrases) reportsFailure(t string) bool {
	message := withoutSymbols(t)
	return hasAnyPrefix(t, failureSymbols) && p.startsWithUnable(strings.ToLower(cutText(message, 160)), message)
}

// endsInTraceback reports whether the output ends in a traceback. If more than lastLines lines follow the traceback,
// the program caught the exception.
func endsInTraceback(body string) bool {
	i := strings.LastIndex(body, "Traceback (most recent call last)")
	if i < 0 {
		return false
	}
	after := -1 // number of lines after the exception; -1 if the traceback is truncated
	_, rest, _ := strings.Cut(body[i:], "\n")
	for line := range strings.SplitSeq(rest, "\n") {
		if strings.TrimSpace(line) == "" || after < 0 && (line[0] == ' ' || line[0] == '\t') {
			continue
		}
		after++
	}
	return after < lastLines
}

// isNodeCrash reports whether the last lines name the Node version, as Node prints it after an uncaught exception.
func isNodeCrash(lines []string) bool {
	return slices.ContainsFunc(lines[max(len(lines)-8, 0):], func(t string) bool {
		return strings.HasPrefix(t, "Node.js v") && len(t) < 24
	})
}

// looksLikeCode reports whether the lines are a diff, or whether most of them have line numbers as in a file listing.
func looksLikeCode(lines []string) bool {
	if hasAnyPrefix(lines[0], []string{"diff --git ", "@@ ", "Here's the result of running `cat -n`"}) {
		return true
	}
	if len(lines) < 3 {
		return false
	}
	numbered := 0
	for _, t := range lines[:min(len(lines), 12)] {
		rest := strings.TrimLeft(t, "0123456789")
		if len(rest) < len(t) && hasAnyPrefix(rest, []string{":", "-", "\t", "→", "  "}) {
			numbered++
		}
	}
	return numbered*4 >= min(len(lines), 12)*3
}

func (p *phrases) isSuccessLine(t string) bool {
	switch {
	case strings.Contains(t, " passed") &&
		(strings.HasSuffix(t, "=") && strings.Contains(t, " in ") || isPytestSummary(t)):
		return !hasPositiveCount(t, " failed", " error")
	case strings.HasPrefix(t, "Tests:") || strings.HasPrefix(t, "Test Files"):
		return strings.Contains(t, "passed") && !strings.Contains(t, "failed")
	case t == "PASS" || t == "OK" || hasAnyPrefix(t, p.lists["done"]):
		return true
	case strings.HasSuffix(t, " passing") && hasPositiveCount(t, " passing"),
		strings.HasSuffix(t, " passed") && len(t) < 40 && isDigit(t[0]):
		return true
	}
	return false
}

func (p *phrases) endsInSuccess(body string) bool {
	body = strings.TrimRight(body, " \r\n\t")
	for range lastLines {
		start := strings.LastIndexByte(body, '\n') + 1
		t := plainLine(body[start:])
		body = strings.TrimRight(body[:start], " \r\n\t")
		if p.isSuccessLine(t) {
			previous := plainLine(body[strings.LastIndexByte(body, '\n')+1:])
			return !strings.HasPrefix(previous, "Test Suites:") || !hasPositiveCount(previous, " failed") // jest
		}
	}
	return false
}

func (p *phrases) hasOnlyShellErrors(body string) bool {
	return everyLineMatches(body, func(t string) bool { return p.isShellError(t) || p.line.command.match(t) })
}

// hasOnlyProgramErrors reports whether a read-only command's output consists of errors from programs in the command
// line. Errors from other programs do not count, because the command may print a log. For a short output, it is enough
// that the first line is such an error, because advice can follow.
func (c *shellCommand) hasOnlyProgramErrors(body string) bool {
	first, _, _ := strings.Cut(body, "\n")
	isKnownError := hasAnyPrefix(strings.ToLower(c.lastProgram+" "+first), c.phrases.lists["program errs"])
	if strings.Count(body, "\n") < 12 && (isKnownError || c.startsWithProgram(first) && c.phrases.isProgramError(first)) {
		return true
	}
	endsInFilter := c.phrases.inList("program filters", c.lastProgram)
	return everyLineMatches(body, func(t string) bool {
		return c.phrases.isShellError(t) && c.startsWithProgram(t) || !endsInFilter && c.phrases.line.command.match(t)
	})
}

// answersNo reports whether no line of a read-only command's output begins with a program's name, as an error does.
// Exit code 1 of the last program is then an answer: diff found differences, or grep found nothing after another
// command.
func (c *shellCommand) answersNo(body string) bool {
	if !c.readOnly {
		return false
	}
	if c.lastProgram == "git" { // git diff --no-index
		return strings.HasPrefix(strings.TrimSpace(body), "diff --git ")
	}
	for line := range strings.SplitSeq(body, "\n") {
		name, _, ok := strings.Cut(plainLine(line), ":")
		if ok && (c.startsWithProgram(line) || c.phrases.inList("program quiet", name)) {
			return false
		}
	}
	return true
}

// endsInProgramError reports whether the last line is an error from a program in the command line about a word of the
// command line, or a shell's error about such a program. A log that the command printed may end in any other error.
func (c *shellCommand) endsInProgramError(body string) bool {
	body = strings.TrimSpace(body)
	last := plainLine(body[strings.LastIndexByte(body, '\n')+1:])
	name, message, _ := strings.Cut(last, ": ")
	if !c.phrases.isShellError(last) || !c.startsWithProgram(last) {
		return false
	}
	byShell := c.phrases.inList("program shell", name[strings.LastIndexByte(name, '/')+1:])
	words := strings.FieldsFunc(message, func(r rune) bool { return strings.ContainsRune(" :,'\"`‘’", r) })
	return slices.ContainsFunc(c.parts, func(p shellPart) bool {
		return byShell && slices.Contains(words, p.prog) || !byShell && hasAny(words, p.args...)
	})
}

// everyLineMatches reports whether accept returns true for every non-blank line. The result is false for a text without
// such lines, or with more than 2000 bytes.
func everyLineMatches(body string, accept func(line string) bool) bool {
	if len(body) > 2000 {
		return false
	}
	n := 0
	for line := range strings.SplitSeq(body, "\n") {
		if t := plainLine(line); t != "" {
			if n++; !accept(t) {
				return false
			}
		}
	}
	return n > 0
}

// hasProgramError reports whether the first two lines or the last lines contain an error from a program in the command
// line. If the program is git, the error can be in any line.
func (c *shellCommand) hasProgramError(body string) bool {
	if looksLikeCode(strings.Split(cutText(body, 400), "\n")) || c.phrases.endsInSuccess(body) {
		return false
	}
	runsGit := !c.phrases.inList("program filters", c.lastProgram) &&
		slices.ContainsFunc(c.parts, func(p shellPart) bool { return p.prog == "git" })
	count, n := strings.Count(strings.TrimSpace(body), "\n")+1, 0
	for line := range strings.SplitSeq(strings.TrimSpace(body), "\n") {
		n++
		if runsGit && (strings.HasPrefix(line, "error: ") || strings.HasPrefix(line, "fatal: ")) {
			return true
		}
		if n > 2 && n <= count-lastLines {
			continue
		}
		if t := plainLine(line); c.phrases.isProgramError(t) && c.startsWithProgram(t) {
			return true
		}
	}
	return false
}

// isProgramError reports whether a line consists of a program name, a colon and words about a failure.
func (p *phrases) isProgramError(t string) bool {
	name, rest, _ := strings.Cut(cutText(t, 300), ": ")
	name = strings.TrimSuffix(name, " ") // PowerShell
	if len(name) > 24 || strings.ContainsAny(name, " \t") || p.inList("program shell", name) {
		return false // a shell writes the error on the next line
	}
	words := strings.Fields(strings.ToLower(rest))
	for i, w := range words {
		words[i] = strings.TrimRight(w, ":;,.!)")
	}
	if len(words) == 0 || p.inList("own-note", words[0]) {
		return false
	}
	for i, w := range words {
		switch {
		case p.inList("own-failure", w),
			w == "not" && name != "cp" && name != "mv", // cp and mv print "not replacing" because of an option
			w == "no" && (name != "go" || i+1 < len(words) && words[i+1] == "such"):
			return true
		}
	}
	return false
}

// startsWithProgram reports whether a line begins with a shell's name, or with the name of a program in the command
// line.
func (c *shellCommand) startsWithProgram(line string) bool {
	name, _, _ := strings.Cut(line, ":")
	name = strings.TrimSuffix(name, " ")
	name = strings.TrimLeft(name[strings.LastIndexByte(name, '/')+1:], "-")
	if name == "(eval)" || c.phrases.inList("program shell", name) {
		return true
	}
	return slices.ContainsFunc(c.parts, func(p shellPart) bool {
		return p.prog == name || (p.prog == "find" || p.prog == "xargs") && slices.Contains(p.args, name)
	})
}
