package distill

import (
	"slices"
	"strings"
)

// findShellFix returns the fix of the failed command in step i, and false if no fix is found.
func (ps *parsedSession) findShellFix(i int) (Fix, bool) {
	s := &ps.steps[i]
	failedCommand := s.blamedCommand()
	installed, hint := "", ""
	for j := i + 1; j < len(ps.steps) && j <= i+repairWindow; j++ {
		t := &ps.steps[j]
		if t.shell == nil || !t.succeeded() {
			continue
		}
		for k := range t.shell.commands {
			c := &t.shell.commands[k]
			if how, ok := c.installs(); ok {
				installed = how
				continue
			}
			if c.program == failedCommand.program && slices.Equal(c.args, failedCommand.args) {
				return fixOfSameCommand(failedCommand, c, installed, hint)
			}
			if by, ok := c.wraps(failedCommand); ok {
				return Fix{Kind: fixProgram, Param: failedCommand.program, Other: by}, true
			}
			if name := c.demandedWords(s.text); name != "" && name != failedCommand.name() {
				hint = name
				continue
			}
			if f, ok := commandFix(failedCommand, c, s.text); ok {
				return f, true
			}
		}
	}
	return Fix{}, false
}

// wraps reports whether the command is the command o with a wrapper, such as poetry run in "poetry run pytest". by is
// the wrapper and the program of o.
func (c *command) wraps(o *command) (by string, ok bool) {
	at := len(c.args) - len(o.args) - 1
	if at < 0 || at > 1 || !c.mayName() || !o.mayName() || c.args[at] != o.program || !slices.Equal(c.args[at+1:], o.args) {
		return "", false
	}
	if at == 0 {
		return c.program + " " + o.program, wordList("runners")[c.program] || slices.Contains([]string{"pnpm", "yarn", "bun"}, c.program)
	}
	switch c.args[0] {
	case "run", "exec", "-m", "dlx":
		return c.program + " " + c.args[0] + " " + o.program, true
	}
	return "", false
}

// fixOfSameCommand returns the fix if the failed command from worked later without a change of its arguments (to). The
// fix is an install command (installed), a command that the error names (hint), or an environment variable. ok is false
// if none of these explains the success.
func fixOfSameCommand(from, to *command, installed, hint string) (f Fix, ok bool) {
	switch {
	case hint != "":
		return Fix{Kind: fixHint, Param: from.name(), Other: hint}, true
	case installed != "":
		return Fix{Kind: fixInstall, Other: installed}, true
	case len(from.env) == 0 && len(to.env) == 1 && to.maySet(to.env[0]):
		return Fix{Kind: fixEnv, Param: to.name(), Other: to.env[0]}, true
	}
	return Fix{}, false
}

// demandedWords returns the program and the subcommands of the command if an error names them, and "" otherwise.
func (c *command) demandedWords(text string) string {
	words := append([]string{c.program}, c.args[:min(len(c.args), 3)]...)
	runner := ""
	if wordList("runners")[c.program] && len(words) > 1 {
		runner, words = c.program+" ", words[1:]
	}
	if !isProgram(words[0]) && (runner != "" || !c.mayName()) {
		return ""
	}
	for n := min(len(words), 3); n > 1; n-- {
		if slices.ContainsFunc(words[1:n], func(w string) bool { return !isSubcommand(w) }) {
			continue
		}
		if name := strings.Join(words[:n], " "); strings.Contains(text, name) {
			return runner + name
		}
	}
	return ""
}

// blamedCommand returns the command that the error of the step names, or else the main command.
func (s *step) blamedCommand() *command {
	for line := range strings.SplitSeq(s.text, "\n") {
		if len(line) > 300 {
			continue
		}
		for p := range strings.SplitSeq(line, ": ") {
			for k := range s.shell.commands {
				if c := &s.shell.commands[k]; strings.TrimSpace(p) == c.program && c.program != "bash" && c.program != "sh" {
					return c
				}
			}
		}
	}
	return s.shell.mainCommand()
}

// optionFix returns the fix if the failed command from, with the options a, and the command to, with the options b,
// differ in one option. values is the number of other words that only to has. A short option with a value gives no fix,
// because the value is private, and the option makes no sense without the value. An option counts as a replacement of
// another option only if the error names the replaced option.
func optionFix(from, to *command, a, b []string, values int, text string) (Fix, bool) {
	added := slices.DeleteFunc(slices.Clone(b), func(f string) bool { return slices.Contains(a, f) })
	removed := slices.DeleteFunc(slices.Clone(a), func(f string) bool { return slices.Contains(b, f) })
	switch {
	case slices.ContainsFunc(slices.Concat(added, removed), isRiskyOption):
		return Fix{}, false
	case wordList("interpreters")[to.program]: // the option belongs to a script, which may be private
		return Fix{}, false
	case len(added) == 1 && len(removed) == 0 && values <= 1 && (values == 0 || strings.HasPrefix(added[0], "--")):
		return Fix{Kind: fixFlags, Param: to.name(), Other: added[0]}, true
	case len(removed) == 1 && len(added) == 1 && values == 0 && namesOption(text, removed[0]):
		return Fix{Kind: fixFlags, Param: to.name(), Other: added[0], How: removed[0]}, true
	case len(removed) == 1 && len(added) == 0 && values == 0 && len(removed[0]) > 2:
		return Fix{Kind: fixFlags, Param: from.name(), Other: removed[0], How: "without"}, true
	}
	return Fix{}, false
}

// namesOption reports whether an error names an option of the command, as in "unexpected argument '--glob-all' found".
func namesOption(text, option string) bool {
	const minLen = 3
	return len(option) >= minLen && strings.Contains(text, option)
}

// isRiskyOption reports whether an option turns a check off. A lesson must not advise such an option, even if the
// command worked with the option.
func isRiskyOption(f string) bool {
	low := strings.ToLower(f)
	return wordList("risky options")[low] || wordList("risky words").containedIn(low)
}

// commandFix returns the difference between the failed command from and the later command to as a fix. ok is false if
// the commands do not have the same purpose, or differ in more than a fix. text is the error of from.
func commandFix(from, to *command, text string) (f Fix, ok bool) {
	a, rest := from.flags()
	b, others := to.flags()
	both := countCommon(others, rest)
	switch {
	case from.program == to.program && from.subcommand() == to.subcommand() && both == len(rest):
		return optionFix(from, to, a, b, len(others)-both, text)
	case from.program != to.program && isProgram(from.program) && isProgram(to.program) && both > 0 && both == len(rest):
		if from.subcommand() != "" && to.subcommand() == "" || !sameFamily(from.program, to.program) {
			return Fix{}, false
		}
		other := to.program
		if sub := to.subcommand(); sub != "" && !slices.Contains(from.args, sub) {
			other = to.name() // docker compose for docker-compose
		}
		return Fix{Kind: fixProgram, Param: from.program, Other: other}, true
	}
	return Fix{}, false
}
