package distill

import (
	"slices"
	"strings"

	"precept/internal/shell"
)

// shellCall is the parsed command line of a tool call. The rules compare commands, and never run a command.
type shellCall struct{ commands []command }

// command is one program with its arguments.
type command struct {
	program  string
	args     []string
	env      []string // names of the environment variables that the command line sets for the command
	orgWords bool     // a lesson may name programs, packages and variables of the organisation
}

// maxLine is the maximum length, in bytes, of a command line that is parsed. A longer line most likely contains a file.
const maxLine = 2000

// parseShellCall parses the command line of a tool call. The result is nil if the call runs no command. orgWords is the
// value of command.orgWords for all commands.
func parseShellCall(s *step, orgWords bool) *shellCall {
	argument := s.args.object["command"]
	if argument == nil {
		argument = s.args.object["cmd"]
	}
	line := ""
	switch argument := argument.(type) {
	case string:
		line = argument
	case []any:
		var words []string
		for _, w := range argument {
			words = append(words, plainText(w))
		}
		if len(words) > 2 && strings.HasSuffix(words[0], "sh") && strings.HasPrefix(words[1], "-") {
			words = words[2:]
		}
		line = strings.Join(words, " ")
	}
	name := strings.ToLower(s.tool)
	isShellTool := name == "run" || slices.ContainsFunc([]string{"bash", "shell", "exec", "terminal", "command"}, func(word string) bool { return strings.Contains(name, word) })
	if _, hasPath := s.args.object["path"]; !isShellTool || hasPath || strings.Contains(name, "edit") || len(line) > maxLine {
		return nil
	}
	c := parseShell(line)
	if len(c.commands) == 0 {
		return nil
	}
	for i := range c.commands {
		c.commands[i].orgWords = orgWords
	}
	return c
}

// parseShell returns the commands of a command line, except the commands in substitutions.
func parseShell(line string) *shellCall {
	c := &shellCall{}
	for _, parsed := range shell.Parse(line).Commands {
		if cmd, ok := commandOf(parsed); ok && !parsed.InSubstitution {
			c.commands = append(c.commands, cmd)
		}
	}
	return c
}

// commandOf returns a command without wrappers such as sudo and env. ok is false if only wrappers are left.
func commandOf(parsed shell.Command) (c command, ok bool) {
	c, words := command{env: parsed.Env}, parsed.Words
	for len(words) > 0 {
		name, _, isAssignment := strings.Cut(words[0], "=")
		switch {
		case isAssignment && !strings.HasPrefix(name, "-"): // env NAME=VALUE
			c.env = append(c.env, name)
		case len(words) > 1 && slices.Contains([]string{"sudo", "time", "env", "nohup", "command"}, words[0]):
			if words[0] == "sudo" {
				for len(words) > 2 && strings.HasPrefix(words[1], "-") {
					if words[1] == "-u" || words[1] == "-g" {
						words = words[1:] // skip the user or the group
					}
					words = words[1:]
				}
			}
		default:
			c.program, c.args = words[0], words[1:]
			return c, true
		}
		words = words[1:]
	}
	return c, false
}

// isProgram reports whether a word is the name of a public program.
func isProgram(w string) bool { return wordList("programs")[w] }

// mayNameProgram reports whether a lesson may name the program of the command.
func (c *command) mayNameProgram() bool {
	return isProgram(c.program) || c.orgWords && isShareableName(c.program)
}

// mayNameVariable reports whether a lesson may name the environment variable.
func (c *command) mayNameVariable(variable string) bool {
	return wordList("variables")[variable] || c.orgWords && consistsOf(variable, letters+"_") && strings.ToUpper(variable) == variable && !isRiskyOption(variable)
}

// packages returns the packages in the arguments of an install command, each after a blank. The result is "" if a
// lesson must not name one of the packages.
func (c *command) packages(args []string) string {
	var out strings.Builder
	for _, a := range args {
		switch {
		case strings.HasPrefix(a, "-"):
		case !wordList("packages")[a] && !(c.orgWords && isShareableName(strings.TrimPrefix(a, "@"))):
			return ""
		default:
			out.WriteString(" " + a)
		}
	}
	return out.String()
}

// installCommand returns the words of an install command, with the packages if a lesson may name all of them. ok is
// false for other commands.
func (c *command) installCommand() (install string, ok bool) {
	if len(c.args) == 0 {
		return "", false
	}
	switch c.program {
	case "pip", "pip3", "npm", "pnpm", "conda", "brew", "apt", "apt-get", "gem", "poetry", "yarn", "bun", "apk", "cargo", "go":
		switch c.args[0] {
		case "install", "add", "i", "ci", "get":
			return c.program + " " + c.args[0] + c.packages(c.args[1:]), true
		}
	case "uv":
		if c.args[0] == "add" || c.args[0] == "sync" || c.args[0] == "pip" {
			return "uv " + c.args[0], true
		}
	case "python", "python3":
		if len(c.args) > 2 && c.args[0] == "-m" && c.args[1] == "pip" && c.args[2] == "install" {
			return c.program + " -m pip install", true
		}
	}
	return "", false
}

// subcommand returns the subcommand of a program, such as commit in "git commit -m x", and "" for none.
func (c *command) subcommand() string {
	if len(c.args) == 0 {
		return ""
	}
	w := c.args[0]
	if wordList("with subcommands")[c.program] && isSubcommand(w) || wordList("runners")[c.program] && isProgram(w) {
		return w
	}
	return ""
}

// isSubcommand reports whether a word has the form of a subcommand.
func isSubcommand(w string) bool {
	return w != "" && w[0] != '-' && len(w) < 16 && consistsOf(w, lower+"-")
}

// name returns the program and its subcommand.
func (c *command) name() string {
	if sub := c.subcommand(); sub != "" {
		return c.program + " " + sub
	}
	return c.program
}

// flags returns the options without their values, and the remaining words.
func (c *command) flags() (flags, rest []string) {
	for _, a := range c.args {
		f, _, _ := strings.Cut(a, "=")
		if len(f) > 1 && f[0] == '-' && len(f) < 32 && consistsOf(f, letters+"-") && strings.Trim(f, "-") != "" {
			flags = append(flags, f)
		} else {
			rest = append(rest, a)
		}
	}
	return flags, rest
}

// mainCommand returns the first command of the line that does more than print text or change the directory, or else the
// last command.
func (s *shellCall) mainCommand() *command {
	for i := range s.commands {
		c := &s.commands[i]
		if !wordList("aside")[c.program] {
			return c
		}
	}
	return &s.commands[len(s.commands)-1]
}

// optionValues returns the values of options in lower case. These values are private. Other words of a command line
// often belong to the program, and are omitted.
func (s *shellCall) optionValues() map[string]bool {
	out := map[string]bool{}
	for i := range s.commands {
		afterOption := false
		for _, a := range s.commands[i].args {
			name, value, hasValue := strings.Cut(a, "=")
			switch {
			case strings.HasPrefix(name, "-") && hasValue:
				out[strings.ToLower(value)] = true
			case afterOption && !strings.HasPrefix(a, "-"):
				out[strings.ToLower(a)] = true
			}
			afterOption = strings.HasPrefix(a, "-") && !hasValue
		}
	}
	return out
}
