package detect

import (
	"slices"
	"strings"

	"precept/internal/shell"
)

// shellCommand is an analysed command line.
type shellCommand struct {
	phrases      *phrases
	readOnly     bool        // the line is valid Bash, and no program changes anything
	statusMasked bool        // a pipe, "|| true" or "; echo" hides the exit status
	waits        bool        // the line blocks until a time or a state is reached
	polls        bool        // the line asks for a state, such as a health check, and changes nothing
	lastProgram  string      // the program that determines the line's exit status
	mainProgram  string      // lastProgram, or the program before a filter, "|| true" or "; echo"
	parts        []shellPart // programs, without wrappers such as sudo
	line         shell.Line
}

type shellPart struct {
	prog string
	args []string
}

func (p *phrases) analyseShell(cmd string) shellCommand { return p.analyse(cmd, maxLaunchers) }

// analyse returns a command line's properties. It reads at most depth nested launchers (programs that run a command).
func (p *phrases) analyse(cmd string, depth int) shellCommand {
	line := shell.Parse(cmd)
	c := shellCommand{phrases: p, readOnly: line.Parsed && !line.Writes, waits: line.RetriesUntilSuccess, line: line}
	changes := false
	for _, command := range line.Commands {
		prog, args := p.program(command.Words)
		if prog == "" {
			continue
		}
		c.parts = append(c.parts, shellPart{prog: prog, args: args})
		waits, polls := p.waitsOrPolls(prog, args, depth)
		readOnly := p.isReadOnly(prog, args)
		c.readOnly, changes = c.readOnly && readOnly, changes || !readOnly && !polls
		c.waits, c.polls = c.waits || waits, c.polls || polls
		if command.InSubstitution {
			continue
		}
		c.lastProgram = prog
		masks := false
		switch command.Operator {
		case "|":
			masks = p.inList("program filters", prog)
		case "||", ";":
			masks = slices.Contains([]string{"true", "echo", ":", "exit"}, prog)
		}
		if c.statusMasked = c.statusMasked || masks; !masks {
			c.mainProgram = prog
		}
	}
	c.readOnly, c.polls = c.readOnly && len(c.parts) > 0, c.polls && !changes
	if strings.Contains(cmd, "pipefail") || strings.Contains(cmd, "PIPESTATUS") {
		c.statusMasked = false
	}
	return c
}

// program returns a command's program and arguments. It skips programs that only start another one, such as sudo, env
// and timeout.
func (p *phrases) program(words []string) (string, []string) {
	for len(words) > 0 {
		w := words[0]
		words = words[1:]
		switch {
		case p.inList("program before", w):
			for len(words) > 1 && strings.Contains(words[0], "=") { // env NAME=VALUE
				words = words[1:]
			}
		case w == "timeout" && len(words) > 0 && strings.EqualFold(words[0], "/t"): // Windows
			return w, words
		case w == "timeout" || w == "nice" || w == "stdbuf" || w == "ionice":
			for len(words) > 0 && words[0] != "" && (words[0][0] == '-' || isDigit(words[0][0])) {
				words = words[1:]
			}
		default:
			if i := strings.LastIndexByte(w, '/'); i >= 0 && i+1 < len(w) {
				w = w[i+1:]
			}
			return w, words
		}
	}
	return "", nil
}

// isReadOnly reports whether a program with these arguments only reads.
func (p *phrases) isReadOnly(prog string, args []string) bool {
	prog = strings.ToLower(prog) // PowerShell
	if p.inList("program subcommand", prog) {
		args = p.subcommandArgs(args)
	}
	if prog == "gh" { // the second argument is the action
		args = args[min(1, len(args)):]
	}
	if p.writesFile(prog, args) {
		return false
	}
	switch prog {
	case "find":
		return p.startsOnlyReaders(args, "-exec", "-execdir", "-ok", "-okdir")
	case "fd":
		if !p.startsOnlyReaders(args, "-x", "--exec", "-X", "--exec-batch") {
			return false
		}
	case "xargs":
		_, command := readOptions(args, optionSyntaxFor(prog), true)
		started, rest := p.program(command)
		return started == "" || p.isReadOnly(started, rest) // if it starts no command, xargs prints its input
	case "sed":
		return true
	case "perl":
		return anyHasPrefix(args, "-ne")
	}
	if p.inList("program looks-alone", strings.Join(append([]string{prog}, args...), " ")) ||
		len(args) == 1 && p.inList("program tells", args[0]) {
		return true
	}
	for n := range min(3, len(args)+1) {
		if p.inList("program looks", strings.Join(append([]string{prog}, args[:n]...), " ")) {
			return true
		}
	}
	return false
}

// startsOnlyReaders reports whether all commands that a search starts are read-only, as in `find . -exec wc -l {} +`. A
// command comes after one of options, and ends at ";" or "+".
func (p *phrases) startsOnlyReaders(args []string, options ...string) bool {
	for i := 0; i < len(args); i++ {
		if !slices.Contains(options, args[i]) {
			continue
		}
		command := args[i+1:]
		if end := slices.IndexFunc(command, func(a string) bool { return a == ";" || a == "+" }); end >= 0 {
			command = command[:end]
		}
		if started, rest := p.program(command); !p.isReadOnly(started, rest) {
			return false
		}
		i += len(command) // these options belong to the started program
	}
	return true
}

// subcommandArgs returns a program's arguments from the subcommand on, as in `kubectl -n shop get pods`. If there is no
// subcommand, it returns all arguments.
func (p *phrases) subcommandArgs(args []string) []string {
	rest := args
	for len(rest) > 0 && strings.HasPrefix(rest[0], "-") {
		if len(rest) > 1 && p.inList("option valued", rest[0]) {
			rest = rest[1:]
		}
		rest = rest[1:]
	}
	if len(rest) == 0 {
		return args
	}
	return rest
}
