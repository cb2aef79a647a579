package detect

import (
	"slices"
	"strings"
)

// shellCommand is what is known of a shell command without running it.
type shellCommand struct {
	readOnly bool   // every part only looks
	masked   bool   // the exit status is not that of the part that matters: a pipe, "|| true", "; echo"
	filtered bool   // a pipe ends in a filter: an empty or short output says little
	waits    bool   // sleeps or waits: made to be repeated
	last     string // the program whose exit status the shell returns
	parts    []shellPart
}

// shellPart is one simple command.
type shellPart struct {
	prog string
	args []string
	pipe bool // its input is the part before
}

// analyseShell splits a command at the shell's operators outside quotes. A here-document ends the
// analysis: what stands in it is data, and the program that gets it is not one that only looks.
func analyseShell(cmd string) shellCommand {
	var c shellCommand
	c.readOnly = true
	segs, ops, writes := splitShell(cmd)
	for i, seg := range segs {
		prog, args := program(seg)
		if prog == "" {
			continue
		}
		piped := i > 0 && ops[i-1] == "|"
		c.parts = append(c.parts, shellPart{prog: prog, args: args, pipe: piped})
		if !looksOnly(prog, args) {
			c.readOnly = false
		}
		if prog == "sleep" || prog == "wait" {
			c.waits = true
		}
		c.last = prog
		if piped && isFilter(prog) {
			c.filtered, c.masked = true, true
		}
		if i > 0 && (ops[i-1] == "||" || ops[i-1] == ";") && (prog == "true" || prog == "echo" || prog == ":" || prog == "exit") {
			c.masked = true
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
	return strings.HasPrefix(s, "&") || strings.HasPrefix(s, "/dev/null") || strings.HasPrefix(s, "/dev/std")
}

// program finds the program's name and arguments behind assignments, wrappers and a subshell's
// bracket.
func program(seg string) (string, []string) {
	words := strings.Fields(seg)
	for len(words) > 0 {
		w := strings.TrimLeft(words[0], "({!")
		switch {
		case w == "" || strings.Contains(w, "=") && !strings.HasPrefix(w, "-") && !strings.ContainsAny(w, "/'\""):
		case w == "sudo" || w == "time" || w == "env" || w == "nohup" || w == "exec" || w == "command" || w == "then" || w == "do" || w == "else" || w == "if" || w == "while":
		case w == "timeout" || w == "nice":
			words = words[1:]
			for len(words) > 0 && (strings.HasPrefix(words[0], "-") || words[0][0] >= '0' && words[0][0] <= '9') {
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

// looksOnly: the program, called like this, changes nothing.
func looksOnly(prog string, args []string) bool {
	switch prog {
	case "ls", "cat", "head", "tail", "grep", "egrep", "fgrep", "rg", "ag", "ack", "wc", "pwd", "echo", "printf", "cd", "pushd", "popd", "which", "whereis", "type",
		"file", "stat", "du", "df", "ps", "printenv", "date", "whoami", "id", "uname", "hostname", "sort", "uniq", "tr", "cut", "jq", "yq", "tree", "diff", "cmp",
		"test", "[", "[[", "true", "false", ":", "sleep", "wait", "less", "more", "nl", "tac", "column", "basename", "dirname", "realpath", "readlink", "md5sum",
		"sha256sum", "xxd", "od", "strings", "locate", "man", "history", "fi", "done", "lsof", "netstat", "ss", "pgrep", "free", "uptime", "nproc", "rev", "fold",
		"for", "elif", "until", "export", "set", "shopt", "ulimit", "exit", "get-content", "get-childitem", "select-string", "dir", "findstr", "where", "fd", "bat", "ping", "nslookup", "dig", "host":
		return true
	case "find":
		return !hasAny(args, "-delete", "-exec", "-execdir", "-ok") || hasAny(args, "grep", "ls", "cat", "head", "wc", "file", "stat")
	case "xargs":
		for _, a := range args {
			if !strings.HasPrefix(a, "-") && looksOnly(a, nil) {
				return true
			}
		}
		return false
	case "sed":
		return !hasPrefix(args, "-i") && !hasPrefix(args, "--in-place")
	case "awk", "gawk", "perl":
		return prog != "perl" || hasPrefix(args, "-ne")
	case "git":
		return gitLooks(args)
	case "node", "python", "python3", "go", "npm", "cargo", "java", "ruby", "rustc", "deno", "bun", "pip":
		return len(args) == 1 && (args[0] == "--version" || args[0] == "-v" || args[0] == "-V" || args[0] == "version") ||
			len(args) > 0 && prog == "go" && (args[0] == "doc" || args[0] == "list" || args[0] == "env") ||
			len(args) > 0 && (prog == "npm" || prog == "pip") && (args[0] == "ls" || args[0] == "list" || args[0] == "view" || args[0] == "show")
	case "docker", "kubectl", "podman":
		return len(args) > 0 && (args[0] == "ps" || args[0] == "logs" || args[0] == "inspect" || args[0] == "images" || args[0] == "get" || args[0] == "describe")
	case "gh":
		return len(args) > 1 && (args[1] == "view" || args[1] == "list" || args[1] == "status" || args[1] == "diff")
	}
	return false
}

func gitLooks(args []string) bool {
	for len(args) > 1 && (args[0] == "-C" || args[0] == "-c") {
		args = args[2:]
	}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		args = args[1:]
	}
	if len(args) == 0 {
		return true
	}
	switch args[0] {
	case "status", "log", "diff", "show", "rev-parse", "blame", "ls-files", "ls-remote", "grep", "describe", "shortlog", "reflog", "rev-list", "cat-file":
		return true
	case "config":
		return hasAny(args, "--get", "--get-all", "--list", "-l", "list", "get")
	case "remote":
		return len(args) == 1 || args[1] == "-v" || args[1] == "show" || args[1] == "get-url"
	case "branch", "tag", "stash":
		return len(args) == 1 || args[1] == "list" || args[1] == "show" || args[1] == "-l" || args[1] == "-a" || args[1] == "-v" || args[1] == "--list" || args[1] == "--show-current"
	}
	return false
}

// isFilter: a program at the end of a pipe that hides the exit status of what matters.
func isFilter(prog string) bool {
	switch prog {
	case "tail", "head", "grep", "egrep", "rg", "tee", "cat", "less", "more", "sed", "awk", "jq", "sort", "uniq", "wc", "cut", "tr", "column", "ts", "nl", "fold", "xargs":
		return true
	}
	return false
}

// quietOne: exit status 1 of these means "nothing found" or "they differ", not a failure.
func quietOne(prog string) bool {
	switch prog {
	case "grep", "egrep", "fgrep", "rg", "ag", "ack", "git", "diff", "cmp", "test", "[", "[[", "which", "pgrep", "type", "findstr", "command", "xargs":
		return true
	}
	return false
}

func hasAny(args []string, want ...string) bool {
	for _, a := range args {
		if slices.Contains(want, a) {
			return true
		}
	}
	return false
}

func hasPrefix(args []string, prefix string) bool {
	for _, a := range args {
		if strings.HasPrefix(a, prefix) {
			return true
		}
	}
	return false
}
