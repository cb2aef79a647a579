package detect

import (
	"slices"
	"strings"
)

// lastWords is how many of the last lines of an output are its last words: an error that stands
// there is how it ended.
const lastWords = 4

// outputFails reads a program's output line by line. A tool's own summary of a failure proves it
// wherever it stands; an error that was merely reported proves it in the first line, among the last
// words, or as a traceback that nothing follows.
func (p *phrases) outputFails(body string) (string, bool) {
	var lines []string // not empty ones, plain
	for line := range strings.SplitSeq(body, "\n") {
		if t := plain(line); t != "" {
			lines = append(lines, t)
		}
	}
	if len(lines) == 0 || looksLikeCode(lines) {
		return "", false
	}
	done := false
	for _, t := range lines[max(len(lines)-lastWords, 0):] {
		done = done || p.doneLine(t)
	}
	if rule, bad := p.statement(lines[0]); bad && !done && rule != "no-such" {
		return rule, true
	}
	if nodeDied(lines) {
		return "node", true
	}
	if tracebackEnds(body) {
		return "traceback", true
	}
	complaints := 0
	for i, t := range lines {
		if t == "╷" && i+1 < len(lines) && strings.HasPrefix(lines[i+1], "Error: ") {
			return "terraform", true // it draws a box around each
		}
		rule, w := p.failLine(t)
		switch {
		case w == strong && (!done || i >= len(lines)-lastWords):
			return rule, true
		case w == weak && !done && (i >= len(lines)-lastWords || i == 0 && rule == "command"):
			return rule, true
		case rule == "shell":
			complaints++
		case rule == "go-build" && i > 0 && strings.HasPrefix(lines[i-1], "# "):
			return rule, true
		}
	}
	return "shell", complaints*2 >= len(lines)
}

// tracebackEnds: the last traceback of the output ends it, but for a few lines; one that much
// follows was caught.
func tracebackEnds(body string) bool {
	i := strings.LastIndex(body, "Traceback (most recent call last)")
	if i < 0 {
		return false
	}
	after := -1 // lines behind the exception; -1: it was cut off
	_, rest, _ := strings.Cut(body[i:], "\n")
	for line := range strings.SplitSeq(rest, "\n") {
		if strings.TrimSpace(line) == "" || after < 0 && (line[0] == ' ' || line[0] == '\t') {
			continue
		}
		after++
	}
	return after < lastWords
}

// nodeDied: node prints the stack and, last of all, its own version when an exception ends the
// program.
func nodeDied(lines []string) bool {
	return slices.ContainsFunc(lines[max(len(lines)-8, 0):], func(t string) bool {
		return strings.HasPrefix(t, "Node.js v") && len(t) < 24
	})
}

// looksLikeCode: a diff or numbered source lines; whatever they say, they say it of a program.
func looksLikeCode(lines []string) bool {
	if hasPrefixOf(lines[0], []string{"diff --git ", "@@ ", "Here's the result of running `cat -n`"}) {
		return true
	}
	if len(lines) < 3 {
		return false
	}
	numbered := 0
	for _, t := range lines[:min(len(lines), 12)] {
		rest := strings.TrimLeft(t, "0123456789")
		if len(rest) < len(t) && hasPrefixOf(rest, []string{":", "-", "\t", "→", "  "}) {
			numbered++
		}
	}
	return numbered*4 >= min(len(lines), 12)*3
}

// doneLine: a summary that says all went well.
func (p *phrases) doneLine(t string) bool {
	switch {
	case strings.Contains(t, " passed") &&
		(strings.HasSuffix(t, "=") && strings.Contains(t, " in ") || pytestEnds(t)):
		return !counts(t, " failed", " error")
	case strings.HasPrefix(t, "Tests:") || strings.HasPrefix(t, "Test Files"):
		return strings.Contains(t, "passed") && !strings.Contains(t, "failed")
	case t == "PASS" || t == "OK" || hasPrefixOf(t, p.lists["done"]):
		return true
	case strings.HasSuffix(t, " passing") && counts(t, " passing"),
		strings.HasSuffix(t, " passed") && len(t) < 40 && isDigit(t[0]):
		return true
	}
	return false
}

// soundsDone: the output's last words say that all went well.
func (p *phrases) soundsDone(body string) bool {
	body = strings.TrimRight(body, " \r\n\t")
	for range lastWords {
		start := strings.LastIndexByte(body, '\n') + 1
		if p.doneLine(plain(body[start:])) {
			return true
		}
		body = strings.TrimRight(body[:start], " \r\n\t")
	}
	return false
}

// allComplain: every line is a shell's, a utility's or a command's complaint.
func (p *phrases) allComplain(body string) bool {
	return all(body, func(t string) bool { return p.shellComplains(t) || p.command.opens(t) })
}

// complains: every line is a complaint of the shell's, or of a program that was called. What
// programs show of files and logs may hold the complaints of others. Some begin with their own, and
// say then what to do.
func (c *shellCommand) complains(body string) bool {
	first, _, _ := strings.Cut(body, "\n")
	errs := hasPrefixOf(strings.ToLower(c.last+" "+first), c.known.lists["program errs"])
	if strings.Count(body, "\n") < 12 && (errs || c.calls(first) && c.known.ownComplaint(first)) {
		return true
	}
	filters := c.known.is("program filters", c.last)
	return all(body, func(t string) bool {
		return c.known.shellComplains(t) && c.calls(t) || !filters && c.known.command.opens(t)
	})
}

// all says whether a short text has lines, and each of them is so.
func all(body string, so func(line string) bool) bool {
	if len(body) > 2000 {
		return false
	}
	n := 0
	for line := range strings.SplitSeq(body, "\n") {
		if t := plain(line); t != "" {
			if n++; !so(t) {
				return false
			}
		}
	}
	return n > 0
}

// ownError: a program that was called says, among the first or the last words, that it could not.
// git says so wherever it does.
func (c *shellCommand) ownError(body string) bool {
	if looksLikeCode(strings.Split(cutText(body, 400), "\n")) || c.known.soundsDone(body) {
		return false
	}
	git := !c.known.is("program filters", c.last) &&
		slices.ContainsFunc(c.parts, func(p shellPart) bool { return p.prog == "git" })
	count, n := strings.Count(strings.TrimSpace(body), "\n")+1, 0
	for line := range strings.SplitSeq(strings.TrimSpace(body), "\n") {
		n++
		if git && (strings.HasPrefix(line, "error: ") || strings.HasPrefix(line, "fatal: ")) {
			return true
		}
		if n > 2 && n <= count-lastWords {
			continue
		}
		if t := plain(line); c.known.ownComplaint(t) && c.calls(t) {
			return true
		}
	}
	return false
}

// ownComplaint: "name: " and words that tell a failure.
func (p *phrases) ownComplaint(t string) bool {
	name, rest, _ := strings.Cut(cutText(t, 300), ": ")
	name = strings.TrimSuffix(name, " ") // PowerShell
	if len(name) > 24 || strings.ContainsAny(name, " \t") || p.is("program shell", name) {
		return false // a shell's goes on with the next line
	}
	words := strings.Fields(strings.ToLower(rest))
	for i, w := range words {
		words[i] = strings.TrimRight(w, ":;,.!)")
	}
	if len(words) == 0 || p.is("own-note", words[0]) {
		return false
	}
	for i, w := range words {
		switch {
		case p.is("own-failure", w),
			w == "not" && name != "cp" && name != "mv", // "not replacing" is what it was told
			w == "no" && (name != "go" || i+1 < len(words) && words[i+1] == "such"):
			return true
		}
	}
	return false
}

// calls: the line begins with the name of a shell or of a program that the command calls.
func (c *shellCommand) calls(line string) bool {
	name, _, _ := strings.Cut(line, ":")
	name = strings.TrimSuffix(name, " ")
	name = strings.TrimLeft(name[strings.LastIndexByte(name, '/')+1:], "-")
	if name == "(eval)" || c.known.is("program shell", name) {
		return true
	}
	return slices.ContainsFunc(c.parts, func(p shellPart) bool {
		return p.prog == name || (p.prog == "find" || p.prog == "xargs") && slices.Contains(p.args, name)
	})
}
