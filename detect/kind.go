package detect

import (
	"path"
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
	kind    kind
	name    string
	words   []string // of the name
	args    laxValue
	command string       // the command or code that it runs
	shell   shellCommand // of command, where it is a shell's
}

// maxCommand bounds how much of a command is analysed: what follows is data.
const maxCommand = 4096

// lookAt finds out what a call is for.
func lookAt(name, args string) toolCall {
	c := toolCall{name: name, words: nameWords(name)}
	c.args, _ = parseLax(args)
	if c.args.kind == laxNone && args != "" && !strings.HasPrefix(args, "{") {
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
		c.shell = analyseShell(c.command)
	}
	if c.shell.waits && c.shell.readOnly {
		c.kind = kindWait
	}
	return c
}

func (c *toolCall) kindOf() kind {
	command, _ := c.args.get("command")
	switch {
	case c.has("editor") && command.kind == laxString: // str_replace_editor, str_replace_based_edit_tool
		if command.raw == "view" {
			return kindRead
		}
		return kindEdit
	case c.has("todo", "todos", "todowrite", "todoread", "think", "thinking", "sequentialthinking", "plan") && !c.has("run", "exec"):
		return kindPlan
	case c.has("wait", "sleep", "poll", "bashoutput", "taskoutput") || c.has("stdin") || c.has("output") && c.has("get", "read", "check", "bash", "task", "command") && !c.has("file"):
		return kindWait
	case c.execName():
		return kindExec
	case c.editName():
		return kindEdit
	case c.has("browser", "browse", "web", "websurfer", "webfetch", "websearch", "url", "http", "navigate", "screenshot", "surfer", "filesurfer", "page"):
		return kindWeb
	case c.fileArg() && c.has("read", "view", "cat", "open", "file", "ls", "list", "dir", "directory", "tree", "outline", "symbols", "get"):
		return kindRead
	case c.has("grep", "glob", "ripgrep", "rg", "codesearch") || c.fileArg() && c.has("search", "find"):
		return kindSearch
	case len(c.words) == 1 && c.has("read", "view", "cat", "ls", "readfile", "listfiles"):
		return kindRead
	}
	return kindOther
}

func (c *toolCall) execName() bool {
	switch {
	case c.has("bash", "shell", "sh", "terminal", "powershell", "pwsh", "exec", "console", "zsh", "ipython", "jupyter", "repl"):
		return true
	case c.has("run", "execute", "executes", "running") && c.has("command", "commands", "cmd", "code", "script", "python", "test", "tests", "cell", "shell", "program"):
		return true
	case c.has("python", "interpreter"):
		return true
	}
	return len(c.words) == 1 && c.has("execute", "run", "cmd", "command") && c.commandText() != ""
}

func (c *toolCall) editName() bool {
	switch {
	case c.has("edit", "multiedit", "notebookedit", "patch", "applypatch", "replace", "writefile", "searchreplace"):
		return true
	case c.has("write", "insert", "append", "create", "delete", "remove", "move", "rename", "save", "undo", "update", "apply", "mkdir", "copy"):
		return c.fileArg() || c.has("file", "files", "diff", "folder", "directory")
	}
	return false
}

// has: one of the words of the tool's name is one of these. A method, and no function value, so
// that the words stay off the heap.
func (c *toolCall) has(ws ...string) bool { return hasAny(c.words, ws...) }

// fileArg: the arguments name a file or folder.
func (c *toolCall) fileArg() bool {
	for _, k := range c.args.keys {
		switch strings.ToLower(k) {
		case "path", "file_path", "filepath", "absolute_path", "absolutepath", "file", "filename", "target_file", "targetfile", "dir", "directory", "dir_path",
			"notebook_path", "relative_workspace_path", "paths", "files", "files_to_read", "file_name", "filesystem_path":
			return true
		}
	}
	return false
}

// runsCode: the tool runs a program text, not a shell line.
func (c *toolCall) runsCode() bool {
	_, code := c.args.get("code", "cell", "source")
	return code || c.has("python", "ipython", "jupyter", "code", "repl", "interpreter")
}

// commandText is the command in the arguments: a string, or a list of words or of commands.
func (c *toolCall) commandText() string {
	v, ok := c.args.get("command", "cmd", "commands", "script", "code", "shell_command", "cell", "source", "chars", "command_line", "action_input")
	if !ok {
		return ""
	}
	if v.kind == laxString {
		return v.text()
	}
	parts := make([]string, 0, len(v.vals))
	for _, e := range v.vals {
		if e.kind == laxObject {
			e, _ = e.get("command", "cmd")
		}
		parts = append(parts, e.text())
	}
	if len(parts) > 1 && isShell(parts[0]) { // ["bash","-lc","make"]
		return parts[len(parts)-1]
	}
	if strings.EqualFold(c.args.keys[0], "commands") {
		return strings.Join(parts, "\n")
	}
	return strings.Join(parts, " ")
}

func isShell(prog string) bool {
	switch path.Base(prog) {
	case "bash", "sh", "zsh", "dash", "pwsh", "powershell", "cmd":
		return true
	}
	return false
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
