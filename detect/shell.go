package detect

import (
	"slices"
	"strings"
)

// shellCommand is what is known of a shell command without running it.
type shellCommand struct {
	known    *phrases
	readOnly bool   // every part only looks
	masked   bool   // the exit status is not that of what matters: a pipe, "|| true", "; echo"
	waits    bool   // sleeps or waits: made to be repeated
	last     string // the program whose exit status the shell returns
	parts    []shellPart
}

// shellPart is one simple command.
type shellPart struct {
	prog string
	args []string
}

// analyseShell splits a command at the shell's operators outside quotes. A here-document ends the
// analysis: what stands in it is data, and the program that gets it is not one that only looks.
func (p *phrases) analyseShell(cmd string) shellCommand {
	c := shellCommand{known: p, readOnly: true}
	segs, ops, writes := splitShell(cmd)
	for i, seg := range segs {
		prog, args := p.program(seg)
		if prog == "" {
			continue
		}
		c.parts = append(c.parts, shellPart{prog: prog, args: args})
		if !p.looksOnly(prog, args) {
			c.readOnly = false
		}
		if prog == "sleep" || prog == "wait" {
			c.waits = true
		}
		c.last = prog
		if i == 0 {
			continue
		}
		switch ops[i-1] {
		case "|":
			c.masked = c.masked || p.is("program filters", prog)
		case "||", ";":
			c.masked = c.masked || slices.Contains([]string{"true", "echo", ":", "exit"}, prog)
		}
	}
	if writes || len(c.parts) == 0 {
		c.readOnly = false
	}
	if strings.Contains(cmd, "pipefail") || strings.Contains(cmd, "PIPESTATUS") {
		c.masked = false
	}
	return c
}

// splitShell cuts at && || | |& ; & and line feeds outside quotes; writes says that output is
// redirected into a file.
func splitShell(cmd string) (segs, ops []string, writes bool) {
	start, quote := 0, byte(0)
	cut := func(i int, op string) {
		segs, ops = append(segs, cmd[start:i]), append(ops, op)
		start = i + len(op)
	}
	for i := 0; i < len(cmd); i++ {
		ch := cmd[i]
		switch {
		case quote != 0:
			if ch == '\\' && quote == '"' {
				i++
			} else if ch == quote {
				quote = 0
			}
		case ch == '\\':
			i++
		case ch == '\'' || ch == '"':
			quote = ch
		case strings.HasPrefix(cmd[i:], "<<<"): // a word, no document
			i += 2
		case strings.HasPrefix(cmd[i:], "<<"):
			return append(segs, cmd[start:i]), append(ops, ""), true
		case ch == '>':
			if !harmlessRedirect(cmd[i:]) {
				writes = true
			}
			for i+1 < len(cmd) && (cmd[i+1] == '>' || cmd[i+1] == '&') {
				i++
			}
		case strings.HasPrefix(cmd[i:], "&&") || strings.HasPrefix(cmd[i:], "||"):
			cut(i, cmd[i:i+2])
			i++
		case ch == '|' || ch == ';' || ch == '\n':
			cut(i, cmd[i:i+1])
		case ch == '&' && (i == 0 || cmd[i-1] != '>') && (i+1 == len(cmd) || cmd[i+1] != '>'):
			cut(i, "&")
		}
	}
	return append(segs, cmd[start:]), append(ops, ""), writes
}

// harmlessRedirect: >&2, >/dev/null and their like write no file.
func harmlessRedirect(s string) bool {
	s = strings.TrimLeft(s, ">")
	s = strings.TrimLeft(s, " ")
	return hasPrefixOf(s, []string{"&", "/dev/null", "/dev/std"})
}

// program finds the program's name and arguments behind assignments, wrappers and a subshell's
// bracket.
func (p *phrases) program(seg string) (string, []string) {
	words := strings.Fields(seg)
	for len(words) > 0 {
		w := strings.TrimLeft(words[0], "({!")
		switch {
		case w == "", w[0] != '-' && strings.Contains(w, "=") && !strings.ContainsAny(w, "/'\""):
		case p.is("program before", w):
		case w == "timeout" || w == "nice":
			words = words[1:]
			for len(words) > 0 && (words[0][0] == '-' || isDigit(words[0][0])) {
				words = words[1:]
			}
			continue
		default:
			if i := strings.LastIndexByte(w, '/'); i >= 0 && i+1 < len(w) {
				w = w[i+1:]
			}
			return strings.Trim(w, `"')}`), words[1:]
		}
		words = words[1:]
	}
	return "", nil
}

// looksOnly: the program, called like this, changes nothing. The list tells it by the program's
// name and, where that does not say it, by the arguments that come first.
func (p *phrases) looksOnly(prog string, args []string) bool {
	prog = strings.ToLower(prog) // PowerShell
	if prog == "git" {
		args = gitArgs(args)
	}
	switch prog {
	case "find":
		return !hasAny(args, "-delete", "-exec", "-execdir", "-ok") ||
			slices.ContainsFunc(args, func(a string) bool { return p.is("program finds", a) })
	case "xargs":
		run := slices.IndexFunc(args, func(a string) bool {
			return !strings.HasPrefix(a, "-") && p.looksOnly(a, nil)
		})
		return run >= 0
	case "sed":
		return !hasPrefix(args, "-i") && !hasPrefix(args, "--in-place")
	case "perl":
		return hasPrefix(args, "-ne")
	case "gh": // the thing comes first
		args = args[min(1, len(args)):]
	}
	if p.is("program looks-alone", strings.Join(append([]string{prog}, args...), " ")) ||
		len(args) == 1 && p.is("program tells", args[0]) {
		return true
	}
	for n := range min(3, len(args)+1) {
		if p.is("program looks", strings.Join(append([]string{prog}, args[:n]...), " ")) {
			return true
		}
	}
	return false
}

// gitArgs are git's arguments without those that stand before its command.
func gitArgs(args []string) []string {
	for len(args) > 1 && (args[0] == "-C" || args[0] == "-c") {
		args = args[2:]
	}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		args = args[1:]
	}
	return args
}
