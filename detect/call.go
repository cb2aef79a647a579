package detect

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// purpose is the purpose of a tool, derived from the tool's name and arguments. The purpose decides which text
// is evidence: the output of a shell is judged line by line, the content of a file only if the whole content is
// a short error message.
type purpose uint8

const (
	purposeOther  purpose = iota // a tool of a domain, an API
	purposeExec                  // runs commands or code
	purposeRead                  // reads files, lists folders
	purposeSearch                // searches the text of files
	purposeEdit                  // changes files
	purposeWeb                   // fetches pages, drives a browser
	purposePlan                  // notes of the agent: plans, thoughts, to-do lists
	purposeWait                  // polls or waits
)

// toolCall is the analysis of a call.
type toolCall struct {
	phrases   *phrases
	purpose   purpose
	nameWords []string // words of the tool's name
	nameLists []string // classes of phrases with one of the words, without the prefix "tool "
	args      lenientValue
	complete  bool         // args lacks no part of the arguments
	command   string       // command or code to run, cut to maxCommand
	shell     shellCommand // analysis of the command of a shell
}

// maxCommand is the number of bytes of a command that are analysed. The rest is usually data.
const maxCommand = 4096

// analyseCall returns the analysis of a call.
func (p *phrases) analyseCall(name, args string) toolCall {
	c := toolCall{phrases: p, shell: shellCommand{phrases: p}, nameWords: nameWords(name)}
	for _, w := range c.nameWords {
		c.nameLists = append(c.nameLists, p.toolLists[w]...)
	}
	c.args, _, c.complete = parseComplete(args)
	if c.args.kind == noValue && args != "" && !strings.HasPrefix(args, "{") {
		c.command = args // input of a custom tool
		if commands := scriptCommands(args); commands != "" {
			c.command = commands
		}
	}
	c.purpose = c.purposeOf()
	if c.purpose != purposeExec && c.purpose != purposeWait {
		return c
	}
	if cmd := c.commandText(); cmd != "" {
		c.command = cmd
	}
	if len(c.command) > maxCommand {
		c.command = c.command[:maxCommand]
	}
	if c.runsCode() {
		c.shell.waits = p.sleeps(c.command)
	} else {
		c.shell = p.analyseShell(c.command)
	}
	if c.shell.waits && c.shell.readOnly {
		c.purpose = purposeWait
	}
	return c
}

// purposeOf returns the purpose of the tool, by the words of its name and by its arguments.
func (c *toolCall) purposeOf() purpose {
	command, _ := c.args.get("command")
	switch {
	case c.has("editor") && command.kind == stringValue: // str_replace_editor
		if command.raw == "view" {
			return purposeRead
		}
		return purposeEdit
	case c.nameMatches("plan") && !c.has("run", "exec", "upgrade", "change", "cancel", "subscribe"): // a plan of a customer
		return purposePlan
	case c.namesWait() || c.nameMatches("wait") || c.has("output") && c.nameMatches("waits-for") && !c.has("file"):
		return purposeWait
	case c.execName():
		if command.kind == stringValue && strings.TrimSpace(command.raw) == "" { // OpenHands reads a running command
			return purposeWait
		}
		return purposeExec
	case c.nameMatches("edit") || c.nameMatches("writes") && (c.fileArg() || c.nameMatches("file")):
		return purposeEdit
	case c.nameMatches("web"):
		return purposeWeb
	case c.fileArg() && c.nameMatches("read") || len(c.nameWords) == 1 && c.nameMatches("read-alone"):
		return purposeRead
	case c.nameMatches("search") || c.fileArg() && c.nameMatches("looks-for"):
		return purposeSearch
	}
	return purposeOther
}

func (c *toolCall) execName() bool {
	return c.nameMatches("exec") || c.nameMatches("runs") && c.nameMatches("run") ||
		len(c.nameWords) == 1 && c.nameMatches("exec-alone") && c.commandText() != ""
}

// nameMatches reports whether a word of the tool's name is in the list "tool " + list.
func (c *toolCall) nameMatches(list string) bool {
	return slices.Contains(c.nameLists, list)
}

// has reports whether a word of the tool's name is one of ws. A method, unlike a function value,
// keeps ws off the heap.
func (c *toolCall) has(ws ...string) bool { return hasAny(c.nameWords, ws...) }

// fileArg reports whether the name of an argument says that the argument is a file or a folder.
func (c *toolCall) fileArg() bool {
	return slices.ContainsFunc(c.args.keys, func(k string) bool { return c.phrases.isKey("file", k) })
}

// runsCode reports whether the tool runs the text of a program, not a shell line.
func (c *toolCall) runsCode() bool {
	_, code := c.args.get("code", "cell", "source")
	return code || c.nameMatches("code")
}

// commandText returns the command in the arguments: a string, or a list of words or of commands.
func (c *toolCall) commandText() string {
	v, ok := c.args.get(c.phrases.lists["key command"]...)
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
	if len(parts) > 1 && c.phrases.inList("program shell", path.Base(parts[0])) { // ["bash","-lc","make"]
		return parts[len(parts)-1]
	}
	if strings.EqualFold(c.args.keys[0], "commands") {
		return strings.Join(parts, "\n")
	}
	return strings.Join(parts, " ")
}

// nameWords returns the lower-case words of a tool's name, cut at punctuation and before the capitals of
// camelCase.
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

// Codex gives newer models one tool that runs a program in JavaScript. The program calls the other tools:
// `const r = await tools.exec_command({cmd: "make"}); text(r);`. The program passes its result to text; the
// result of a command is JSON with an exit code.

// scriptCommands returns the literal commands in a JavaScript program of Codex, one per line; "" for
// none.
func scriptCommands(program string) string {
	var commands []string
	for rest := program; ; {
		_, after, ok := strings.Cut(rest, "tools.exec_command(")
		if !ok {
			return strings.Join(commands, "\n")
		}
		rest = after
		args, _, _ := strings.Cut(rest, "tools.")
		for _, key := range []string{"cmd:", `"cmd":`, "'cmd':"} {
			if _, literal, ok := strings.Cut(args, key); ok {
				if command, ok := jsString(strings.TrimSpace(literal)); ok {
					commands = append(commands, command)
				}
				break
			}
		}
	}
}

// jsString returns the string literal at the start of a text, without quotes and escapes. ok is false for other
// texts and for a template with a substitution.
func jsString(text string) (string, bool) {
	if text == "" || !strings.ContainsRune("\"'`", rune(text[0])) {
		return "", false
	}
	var b strings.Builder
	for rest := text[1:]; rest != ""; {
		switch {
		case rest[0] == text[0]:
			return b.String(), true
		case text[0] == '`' && strings.HasPrefix(rest, "${"):
			return "", false
		case rest[0] != '\\' || len(rest) == 1:
			b.WriteByte(rest[0])
			rest = rest[1:]
		case rest[1] == '\'' || rest[1] == '"' || rest[1] == '`':
			b.WriteByte(rest[1])
			rest = rest[2:]
		default:
			r, _, after, err := strconv.UnquoteChar(rest, 0)
			if err != nil {
				return "", false
			}
			b.WriteRune(r)
			rest = after
		}
	}
	return "", false
}
