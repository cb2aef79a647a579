package distill

import (
	"slices"
	"strings"
)

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
			if how, ok := c.installCommand(); ok {
				installed = how
				continue
			}
			if c.program == failedCommand.program && slices.Equal(c.args, failedCommand.args) {
				return sameCommandFix(failedCommand, c, installed, hint)
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

// wraps reports whether the command runs the inner command, as "poetry run pytest -q" runs "pytest -q". by is the
// command without the inner command's arguments, here "poetry run pytest".
func (c *command) wraps(inner *command) (by string, ok bool) {
	start := len(c.args) - len(inner.args) - 1
	if start < 0 || start > 1 || !c.mayNameProgram() || !inner.mayNameProgram() || c.args[start] != inner.program || !slices.Equal(c.args[start+1:], inner.args) {
		return "", false
	}
	if start == 0 {
		return c.program + " " + inner.program, wordList("runners")[c.program] || slices.Contains([]string{"pnpm", "yarn", "bun"}, c.program)
	}
	switch c.args[0] {
	case "run", "exec", "-m", "dlx":
		return c.program + " " + c.args[0] + " " + inner.program, true
	}
	return "", false
}

// sameCommandFix returns the fix for a command that failed and then worked unchanged. The fix is an install command
// (installed), a command that the error names (hint), or an environment variable.
func sameCommandFix(failed, working *command, installed, hint string) (f Fix, ok bool) {
	switch {
	case hint != "":
		return Fix{Kind: fixHint, Param: failed.name(), Other: hint}, true
	case installed != "":
		return Fix{Kind: fixInstall, Other: installed}, true
	case len(failed.env) == 0 && len(working.env) == 1 && working.mayNameVariable(working.env[0]):
		return Fix{Kind: fixEnv, Param: working.name(), Other: working.env[0]}, true
	}
	return Fix{}, false
}

// demandedWords returns the program and the subcommands if the error names them, or else "".
func (c *command) demandedWords(text string) string {
	words := append([]string{c.program}, c.args[:min(len(c.args), 3)]...)
	runner := ""
	if wordList("runners")[c.program] && len(words) > 1 {
		runner, words = c.program+" ", words[1:]
	}
	if !isProgram(words[0]) && (runner != "" || !c.mayNameProgram()) {
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

// blamedCommand returns the command named in the error, or else the main command.
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

// optionFix returns the only option that differs between two commands. newWords is the number of other new words. A new
// short option with a value is not a fix, because the value is private. An option counts as a replacement for another
// option only if the error names the other option.
func optionFix(failed, working *command, oldOptions, newOptions []string, newWords int, text string) (Fix, bool) {
	added := slices.DeleteFunc(slices.Clone(newOptions), func(f string) bool { return slices.Contains(oldOptions, f) })
	removed := slices.DeleteFunc(slices.Clone(oldOptions), func(f string) bool { return slices.Contains(newOptions, f) })
	switch {
	case slices.ContainsFunc(slices.Concat(added, removed), isRiskyOption):
		return Fix{}, false
	case wordList("interpreters")[working.program]: // a script's option may be private
		return Fix{}, false
	case len(added) == 1 && len(removed) == 0 && newWords <= 1 && (newWords == 0 || strings.HasPrefix(added[0], "--")):
		return Fix{Kind: fixFlags, Param: working.name(), Other: added[0]}, true
	case len(removed) == 1 && len(added) == 1 && newWords == 0 && namesOption(text, removed[0]):
		return Fix{Kind: fixFlags, Param: working.name(), Other: added[0], Variant: removed[0]}, true
	case len(removed) == 1 && len(added) == 0 && newWords == 0 && len(removed[0]) > 2:
		return Fix{Kind: fixFlags, Param: failed.name(), Other: removed[0], Variant: "without"}, true
	}
	return Fix{}, false
}

// namesOption reports whether an error names an option, as in "unexpected argument '--glob-all' found".
func namesOption(text, option string) bool {
	const minLen = 3
	return len(option) >= minLen && strings.Contains(text, option)
}

// isRiskyOption reports whether an option turns off a check. A lesson must not advise such an option.
func isRiskyOption(option string) bool {
	low := strings.ToLower(option)
	return wordList("risky options")[low] || wordList("risky words").containedIn(low)
}

// commandFix compares commands with the same purpose that differ only in the fix. text is the failed command's error.
func commandFix(failed, working *command, text string) (f Fix, ok bool) {
	oldOptions, oldWords := failed.flags()
	newOptions, newWords := working.flags()
	commonWords := countCommon(newWords, oldWords)
	switch {
	case failed.program == working.program && failed.subcommand() == working.subcommand() && commonWords == len(oldWords):
		return optionFix(failed, working, oldOptions, newOptions, len(newWords)-commonWords, text)
	case failed.program != working.program && isProgram(failed.program) && isProgram(working.program) && commonWords > 0 && commonWords == len(oldWords):
		if failed.subcommand() != "" && working.subcommand() == "" || !sameFamily(failed.program, working.program) {
			return Fix{}, false
		}
		other := working.program
		if sub := working.subcommand(); sub != "" && !slices.Contains(failed.args, sub) {
			other = working.name() // docker compose for docker-compose
		}
		return Fix{Kind: fixProgram, Param: failed.program, Other: other}, true
	}
	return Fix{}, false
}
