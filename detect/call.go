package detect

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// purpose is what a call does. The purpose determines how the result is judged. For example, shell output is searched
// line by line, but a file's text is a failure only if the text as a whole is a short error message.
type purpose uint8

const (
	purposeOther purpose = iota // any other tool (domain.go)
	purposeExec                 // runs a command or code
	purposeRead
	purposeSearch
	purposeEdit
	purposeWeb  // fetches pages, drives a browser
	purposePlan // writes the agent's notes, such as plans, thoughts and to-do lists
	purposeWait // polls or waits
)

// toolCall is a call with the properties that the rules need.
type toolCall struct {
	phrases      *phrases
	purpose      purpose
	nameWords    []string // words in the tool's name
	nameLists    []string // "tool" lists in calls.tsv that contain one of nameWords
	args         lenientValue
	argsComplete bool   // args was read in full
	command      string // command or code to run, cut to maxCommand
	shell        shellCommand
}

const maxCommand = 4096 // bytes that are analysed; the rest of a longer command is usually data

func (p *phrases) analyseCall(name, args string) toolCall {
	c := toolCall{phrases: p, shell: shellCommand{phrases: p}, nameWords: nameWords(name)}
	for _, w := range c.nameWords {
		c.nameLists = append(c.nameLists, p.toolLists[w]...)
	}
	c.args, _, c.argsComplete = parseComplete(args)
	if c.args.kind == noValue && args != "" && !strings.HasPrefix(args, "{") {
		c.command = args // a custom tool's input is not JSON
		if commands := scriptCommands(args); commands != "" {
			c.command = commands
		}
	}
	c.purpose = c.computePurpose()
	if c.purpose != purposeExec && c.purpose != purposeWait {
		return c
	}
	if cmd := c.commandText(); cmd != "" {
		c.command = cmd
	}
	if c.namesProgram() && !strings.HasPrefix(c.command, c.nameWords[0]) {
		c.command = c.programCommand()
	}
	if len(c.command) > maxCommand {
		c.command = c.command[:maxCommand]
	}
	if c.runsCode() {
		c.shell.waits = p.callsSleep(c.command)
	} else {
		c.shell = p.analyseShell(c.command)
	}
	if c.shell.waits && c.shell.readOnly {
		c.purpose = purposeWait
	}
	return c
}

func (c *toolCall) computePurpose() purpose {
	command, _ := c.args.get("command")
	switch {
	case c.nameHas("editor") && command.kind == stringValue: // str_replace_editor
		if command.raw == "view" {
			return purposeRead
		}
		return purposeEdit
	case c.nameMatches("plan") && (!c.nameHas("plan") || len(c.args.keys) == 0 || c.hasNoteArg()) && !c.nameHas("run", "exec", "upgrade", "change", "cancel", "subscribe"): // not a customer's plan
		return purposePlan
	case c.namesWait() || c.nameMatches("wait") || c.nameHas("output") && c.nameMatches("waits-for") && !c.nameHas("file"):
		return purposeWait
	case c.namesProgram():
		return purposeExec
	case c.hasExecName():
		if command.kind == stringValue && strings.TrimSpace(command.raw) == "" { // OpenHands: read the running command
			return purposeWait
		}
		return purposeExec
	case c.nameMatches("edit") || c.nameMatches("writes") && (c.hasFileArg() || c.nameMatches("file")):
		return purposeEdit
	case c.nameMatches("web"):
		return purposeWeb
	case c.hasFileArg() && c.nameMatches("read") || len(c.nameWords) == 1 && c.nameMatches("read-alone"):
		return purposeRead
	case c.nameMatches("search") || c.hasFileArg() && c.nameMatches("looks-for"):
		return purposeSearch
	}
	return purposeOther
}

func (c *toolCall) hasNoteArg() bool {
	return slices.ContainsFunc(c.args.keys, func(k string) bool { return c.phrases.isKey("note", k) })
}

// hasExecName reports whether the tool's name says that the tool runs commands or code.
func (c *toolCall) hasExecName() bool {
	return c.nameMatches("exec") || c.nameMatches("runs") && c.nameMatches("run") ||
		len(c.nameWords) == 1 && c.nameMatches("exec-alone") && c.commandText() != ""
}

// namesProgram reports whether the tool's name is a program with a command in the arguments (helm {"command": "helm
// list"}), or a program and what it does (go_test).
func (c *toolCall) namesProgram() bool {
	if len(c.nameWords) == 0 {
		return false
	}
	if c.isToolWord(c.nameWords[len(c.nameWords)-1], "program") {
		_, hasArgs := c.programArgs()
		return hasArgs || len(c.nameWords) == 1 && c.commandText() != ""
	}
	return len(c.nameWords) == 2 && c.isToolWord(c.nameWords[0], "program") && c.isToolWord(c.nameWords[1], "program-does")
}

// programCommand returns the command line for a call of a tool that namesProgram accepts.
func (c *toolCall) programCommand() string {
	words := c.nameWords // go_test
	if last := len(words) - 1; c.isToolWord(words[last], "program") {
		words = words[last:] // k8s_helm
	}
	args, _ := c.programArgs()
	words = append(slices.Clone(words), c.command, args.text())
	for _, arg := range args.vals {
		words = append(words, arg.text())
	}
	return strings.Join(words, " ")
}

func (c *toolCall) programArgs() (lenientValue, bool) {
	return c.args.get("args", "arguments", "argv", "goals", "subcommand")
}

// isToolWord reports whether word is in the "tool LIST" list in calls.tsv.
func (c *toolCall) isToolWord(word, list string) bool {
	return slices.Contains(c.phrases.toolLists[word], list)
}

// nameMatches reports whether a word in the tool's name is in the "tool LIST" list in calls.tsv.
func (c *toolCall) nameMatches(list string) bool {
	return slices.Contains(c.nameLists, list)
}

// nameHas reports whether the tool's name has one of words.
func (c *toolCall) nameHas(words ...string) bool { return hasAny(c.nameWords, words...) }

func (c *toolCall) hasFileArg() bool {
	return slices.ContainsFunc(c.args.keys, func(k string) bool { return c.phrases.isKey("file", k) })
}

func (c *toolCall) runsCode() bool {
	_, hasCode := c.args.get("code", "cell", "source")
	return hasCode || c.nameMatches("code")
}

// commandText returns the command in the arguments: a string, a list of words, or a list of commands.
func (c *toolCall) commandText() string {
	keys := c.phrases.lists["key command"]
	i := slices.IndexFunc(keys, func(key string) bool { _, ok := c.args.get(key); return ok })
	if i < 0 {
		return ""
	}
	v, _ := c.args.get(keys[i])
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
	if keys[i] == "commands" {
		return strings.Join(parts, "\n")
	}
	return strings.Join(parts, " ")
}

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

// Codex gives newer models a single tool. It runs a JavaScript program, which calls the other tools: `const r = await
// tools.exec_command({cmd: "make"}); text(r);`.

// scriptCommands returns the commands that a Codex JavaScript program passes to exec_command, with one command per
// line.
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

// jsString returns the content of the JavaScript string literal at the start of a text. It does not read a template
// literal with a substitution.
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
