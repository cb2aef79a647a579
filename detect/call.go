package detect

import (
	"path"
	"slices"
	"strings"
	"unicode"
)

// kind is what a tool is for, as far as its name and arguments tell. It decides which text is
// evidence: a shell's output is judged line by line, a file that was read is not judged at all.
type kind uint8

const (
	kindOther  kind = iota // a domain's own tool, an API
	kindExec               // runs commands or code
	kindRead               // reads files, lists folders
	kindSearch             // looks for something in files
	kindEdit               // changes files
	kindWeb                // fetches pages, drives a browser
	kindPlan               // notes to itself: plans, thoughts, to-do lists
	kindWait               // polls or waits
)

// toolCall is a call, looked at once.
type toolCall struct {
	known   *phrases
	kind    kind
	words   []string // of its name
	args    lenientValue
	command string       // the command or code that it runs
	shell   shellCommand // of command, where it is a shell's
}

// maxCommand bounds how much of a command is analysed: what follows is data.
const maxCommand = 4096

// lookAt finds out what a call is for.
func (p *phrases) lookAt(name, args string) toolCall {
	c := toolCall{known: p, shell: shellCommand{known: p}, words: nameWords(name)}
	c.args, _ = parseLenient(args)
	if c.args.kind == noValue && args != "" && !strings.HasPrefix(args, "{") {
		c.command = args // a custom tool's input
		if commands := scripted(args); commands != "" {
			c.command = commands
		}
	}
	c.kind = c.kindOf()
	if c.kind != kindExec && c.kind != kindWait {
		return c
	}
	if cmd := c.commandText(); cmd != "" {
		c.command = cmd
	}
	if len(c.command) > maxCommand {
		c.command = c.command[:maxCommand]
	}
	if !c.runsCode() {
		c.shell = p.analyseShell(c.command)
	}
	if c.shell.waits && c.shell.readOnly {
		c.kind = kindWait
	}
	return c
}

func (c *toolCall) kindOf() kind {
	command, _ := c.args.get("command")
	switch {
	case c.has("editor") && command.kind == stringValue: // str_replace_editor
		if command.raw == "view" {
			return kindRead
		}
		return kindEdit
	case c.named("plan") && !c.has("run", "exec"):
		return kindPlan
	case c.named("wait") || c.has("output") && c.named("waits-for") && !c.has("file"):
		return kindWait
	case c.execName():
		return kindExec
	case c.named("edit") || c.named("writes") && (c.fileArg() || c.named("file")):
		return kindEdit
	case c.named("web"):
		return kindWeb
	case c.fileArg() && c.named("read") || len(c.words) == 1 && c.named("read-alone"):
		return kindRead
	case c.named("search") || c.fileArg() && c.named("looks-for"):
		return kindSearch
	}
	return kindOther
}

func (c *toolCall) execName() bool {
	return c.named("exec") || c.named("runs") && c.named("run") ||
		len(c.words) == 1 && c.named("exec-alone") && c.commandText() != ""
}

// named: one of the words of the tool's name is in that list.
func (c *toolCall) named(list string) bool {
	return slices.ContainsFunc(c.words, func(w string) bool { return c.known.is("tool "+list, w) })
}

// has: one of the words of the tool's name is one of these. A method, and no function value, so
// that the words stay off the heap.
func (c *toolCall) has(ws ...string) bool { return hasAny(c.words, ws...) }

// fileArg: the arguments name a file or folder.
func (c *toolCall) fileArg() bool {
	return slices.ContainsFunc(c.args.keys, func(k string) bool { return c.known.isKey("file", k) })
}

// runsCode: the tool runs a program text, not a shell line.
func (c *toolCall) runsCode() bool {
	_, code := c.args.get("code", "cell", "source")
	return code || c.named("code")
}

// commandText is the command in the arguments: a string, or a list of words or of commands.
func (c *toolCall) commandText() string {
	v, ok := c.args.get(c.known.lists["key command"]...)
	if !ok {
		return ""
	}
	if v.kind == stringValue {
		return v.text()
	}
	parts := make([]string, 0, len(v.vals))
	for _, e := range v.vals {
		if e.kind == objectValue {
			e, _ = e.get("command", "cmd")
		}
		parts = append(parts, e.text())
	}
	if len(parts) > 1 && c.known.is("program shell", path.Base(parts[0])) { // ["bash","-lc","make"]
		return parts[len(parts)-1]
	}
	if strings.EqualFold(c.args.keys[0], "commands") {
		return strings.Join(parts, "\n")
	}
	return strings.Join(parts, " ")
}

// nameWords cuts a tool's name into lower-case words: at what is no letter or digit, and at humps.
func nameWords(name string) []string {
	var words []string
	start := -1
	flush := func(end int) {
		if start >= 0 {
			words = append(words, strings.ToLower(name[start:end]))
		}
		start = -1
	}
	prev := rune(0)
	for i, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			flush(i)
		case unicode.IsUpper(r) && unicode.IsLower(prev):
			flush(i)
			start = i
		case start < 0:
			start = i
		}
		prev = r
	}
	flush(len(name))
	return words
}
