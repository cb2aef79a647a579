package distill

import (
	"slices"
	"strings"

	"precept/internal/shell"
)

// shellCall is a parsed command line. The rules only compare commands and never run them.
type shellCall struct{ commands []command }

type command struct {
	program  string
	args     []string
	env      []string // variables that the line sets for the command
	orgWords bool     // lessons may use the organisation's names
}

// maxLine is the maximum length of a line to parse. A longer line most likely contains a file.
const maxLine = 2000

// parseShellCall returns the parsed command line, or nil if the call runs no command.
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

// parseShell parses a command line. It ignores commands in substitutions.
func parseShell(line string) *shellCall {
	c := &shellCall{}
	for _, parsed := range shell.Parse(line).Commands {
		if cmd, ok := unwrapCommand(parsed); ok && !parsed.InSubstitution {
			c.commands = append(c.commands, cmd)
		}
	}
	return c
}

// unwrapCommand returns a command without wrappers such as sudo and env. ok is false if nothing is left.
func unwrapCommand(parsed shell.Command) (c command, ok bool) {
	c, words := command{env: parsed.EnvNames}, parsed.Words
	for len(words) > 0 {
		name, _, isAssignment := strings.Cut(words[0], "=")
		switch {
		case isAssignment && !strings.HasPrefix(name, "-"): // env NAME=VALUE
			c.env = append(c.env, name)
		case len(words) > 1 && slices.Contains([]string{"sudo", "time", "env", "nohup", "command"}, words[0]):
			if words[0] == "sudo" {
				for len(words) > 2 && strings.HasPrefix(words[1], "-") {
					if words[1] == "-u" || words[1] == "-g" {
						words = words[1:] // user or group
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

func isProgram(w string) bool { return wordList("programs")[w] }

// mayNameProgram reports whether a lesson may name the command's program.
func (c *command) mayNameProgram() bool {
	return isProgram(c.program) || c.orgWords && isShareableName(c.program)
}

func (c *command) mayNameVariable(variable string) bool {
	return wordList("variables")[variable] || c.orgWords && containsOnly(variable, letters+"_") && strings.ToUpper(variable) == variable && !isRiskyOption(variable)
}

// packages returns the packages in an install command, with a space before each. The result is "" if a package is
// private.
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

// installCommand returns the install command. The packages are included unless one of them is private.
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

// subcommand returns the subcommand, such as commit in "git commit -m x".
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

func isSubcommand(w string) bool {
	return w != "" && w[0] != '-' && len(w) < 16 && containsOnly(w, lower+"-")
}

func (c *command) name() string {
	if sub := c.subcommand(); sub != "" {
		return c.program + " " + sub
	}
	return c.program
}

// flags returns the options without values, and the remaining words.
func (c *command) flags() (flags, rest []string) {
	for _, a := range c.args {
		f, _, _ := strings.Cut(a, "=")
		if len(f) > 1 && f[0] == '-' && len(f) < 32 && containsOnly(f, letters+"-") && strings.Trim(f, "-") != "" {
			flags = append(flags, f)
		} else {
			rest = append(rest, a)
		}
	}
	return flags, rest
}

// mainCommand returns the first command that does more than print or change the directory, or else the last command.
func (s *shellCall) mainCommand() *command {
	for i := range s.commands {
		c := &s.commands[i]
		if !wordList("aside")[c.program] {
			return c
		}
	}
	return &s.commands[len(s.commands)-1]
}

// optionValues returns the values of options, all of which are private. Other words often belong to the program.
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
