package distill

import (
	"cmp"
	"slices"
	"strings"

	"precept/detect"
)

const (
	fixRefused   = "refused"   // the user rejected a command
	fixCorrected = "corrected" // the user named the program to use instead
	fixOption    = "option"    // the user named an option
)

// userOccurrences returns the user's rejections and corrections. The lessons made from them name only commands, because
// the user's words are private.
func (ps *parsedSession) userOccurrences() []*occurrence {
	var out []*occurrence
	add := func(c Case, f Fix) {
		m := ps.newOccurrence(c, seenError{})
		m.failure.MaxFailures = 1
		m.addFix(f)
		out = append(out, m)
	}
	for i := range ps.steps {
		s := &ps.steps[i]
		if s.judgement.Outcome != detect.Refusal || s.judgement.Refuser != detect.UserRefuser || s.shell == nil {
			continue
		}
		if c := s.shell.mainCommand(); c.mayNameProgram() && (c.subcommand() != "" || !isProgram(c.program)) {
			name := c.nameWithForce()
			f := Fix{Kind: fixRefused, Param: name, Other: ps.acceptedCommand(i, name)}
			add(Case{Key: "refused|" + name, Tool: c.program, Shell: true, Phrases: []string{name}}, f)
		}
	}
	for _, t := range ps.messages {
		if t.stepsBefore == 0 {
			continue
		}
		if c, f, ok := ps.readCorrection(t); ok {
			add(c, f)
		}
	}
	return out
}

// forcingOption returns an option such as --force that skips a check. Such an option is the most likely reason for a
// rejection.
func (c *command) forcingOption() string {
	for _, f := range c.args {
		if wordList("forcing options")[f] {
			return f
		}
	}
	return ""
}

// nameWithForce returns the command's name with the forcing option, such as "rm -f".
func (c *command) nameWithForce() string {
	if flag := c.forcingOption(); flag != "" {
		return c.name() + " " + flag
	}
	return c.name()
}

// acceptedCommand returns a command with the same program that succeeded within three steps. It ignores commands that
// only show information.
func (ps *parsedSession) acceptedCommand(i int, refused string) string {
	program, _, _ := strings.Cut(refused, " ")
	for j := i + 1; j < len(ps.steps) && j <= i+3; j++ {
		if t := &ps.steps[j]; t.shell != nil && t.succeeded() {
			if c := t.shell.mainCommand(); c.program == program && c.nameWithForce() != refused && c.subcommand() != "" && !wordList("looking")[c.subcommand()] {
				return c.nameWithForce()
			}
		}
	}
	return ""
}

// readCorrection compares the commands before and after a user message. ok is false if the commands show no correction.
func (ps *parsedSession) readCorrection(t userMessage) (c Case, f Fix, ok bool) {
	words := strings.FieldsFunc(strings.ToLower(t.words), func(r rune) bool { return strings.ContainsRune(" \t\n,;:!?()\"'`", r) })
	for i := range words {
		words[i] = strings.TrimRight(words[i], ".")
	}
	isOpposed := t.opinion.Feeling == detect.Correction || t.opinion.Feeling == detect.Rejection
	for j := t.stepsBefore; j < len(ps.steps) && j < t.stepsBefore+6; j++ {
		after := ps.steps[j].command()
		if after == nil || !ps.steps[j].succeeded() {
			continue
		}
		for k := t.stepsBefore - 1; k >= 0 && k >= t.stepsBefore-5; k-- {
			before := ps.steps[k].command()
			if before == nil {
				continue
			}
			switch {
			case before.program != after.program && after.runsTask() && !after.isRequested(before, words):
				// no lesson, because the task's name may be private
			case before.program != after.program && namesReplacement(t.words, before.program, after.program):
				return Case{Key: "corrected|" + before.program + "|" + after.program, Tool: before.program, Shell: true, Phrases: commandTriggers(before)},
					Fix{Kind: fixCorrected, Param: before.program, Other: after.program}, true
			case j == t.stepsBefore && before.program != after.program && after.isRequested(before, words):
				name := after.program + " " + after.args[0]
				return Case{Key: "corrected|" + before.program + " " + before.args[0] + "|" + name, Tool: before.program, Shell: true, Phrases: []string{before.program + " " + before.args[0]}},
					Fix{Kind: fixCorrected, Param: before.program + " " + before.args[0], Other: name}, true
			case isOpposed && before.name() == after.name():
				if flag := after.requestedOption(words, before); flag != "" {
					return Case{Key: "option|" + after.name() + "|" + flag, Tool: after.program, Shell: true, Phrases: ps.optionTriggers(after)},
						Fix{Kind: fixOption, Param: after.name(), Other: flag}, true
				}
			}
		}
	}
	return c, f, false
}

// namesReplacement matches "use pnpm, not npm", "pnpm instead of npm" and "never npx, bun does that".
func namesReplacement(words, replaced, wanted string) bool {
	for sentence := range strings.FieldsFuncSeq(strings.ToLower(words), func(r rune) bool { return strings.ContainsRune("\n;!?", r) }) {
		list := strings.FieldsFunc(sentence, func(r rune) bool { return strings.ContainsRune(" \t,:()\"`", r) })
		for i := range list {
			list[i] = strings.Trim(list[i], ".'")
		}
		pos := slices.Index(list, replaced)
		if pos < 0 || !slices.Contains(list, wanted) {
			continue
		}
		for _, w := range slices.Backward(list[max(0, pos-3):pos]) {
			if w == wanted { // if a negation comes before the wanted program, the user wants another program
				break
			}
			if slices.Contains([]string{"not", "instead", "rather", "never", "don't", "no", "without"}, w) {
				return true
			}
		}
	}
	return false
}

// runsTask reports whether the command runs a task that the project defines, such as "make test".
func (c *command) runsTask() bool {
	return slices.Contains([]string{"make", "rake", "nox", "tox", "bash", "sh"}, c.program) ||
		slices.Contains([]string{"npm", "pnpm", "yarn", "bun"}, c.program) && c.subcommand() == "run"
}

// isRequested reports whether the user asked for the command, as in "please use make test". Both commands must have the
// same first argument.
func (c *command) isRequested(previous *command, words []string) bool {
	if len(c.args) == 0 || len(previous.args) == 0 || c.args[0] != previous.args[0] || !isSubcommand(c.args[0]) {
		return false
	}
	pos := slices.Index(words, "use")
	return pos >= 0 && pos+2 < len(words) && words[pos+1] == c.program && words[pos+2] == c.args[0]
}

// requestedOption returns the first new option named by the user.
func (c *command) requestedOption(words []string, previous *command) string {
	oldFlags, _ := previous.flags()
	newFlags, _ := c.flags()
	requested := ""
	for _, flag := range newFlags {
		if flag = c.option(flag); slices.Contains(oldFlags, flag) || !slices.Contains(words, strings.ToLower(flag)) || len(flag) < 3 {
			continue
		}
		if c.takesValue(flag, previous) || isRiskyOption(flag) { // one session does not justify a lesson
			return ""
		}
		requested = cmp.Or(requested, flag)
	}
	return requested
}

// takesValue reports whether the option is followed by a word that the previous command does not have. Such a word is a
// private value, and advice to use the option without the value would be useless.
func (c *command) takesValue(flag string, previous *command) bool {
	pos := slices.Index(c.args, flag)
	return pos >= 0 && pos+1 < len(c.args) && !strings.HasPrefix(c.args[pos+1], "-") && !slices.Contains(previous.args, c.args[pos+1])
}

// option returns an option. The result includes the option's value if that is a short number, true or false. Other
// values may be private.
func (c *command) option(flag string) string {
	for _, a := range c.args {
		if v, ok := strings.CutPrefix(a, flag+"="); ok && (isNumber(v) && len(v) < 5 || v == "true" || v == "false") {
			return a
		}
	}
	return flag
}

// command returns a call's command, or nil if a lesson may not name it.
func (s *step) command() *command {
	if s.shell == nil {
		return nil
	}
	if c := s.shell.mainCommand(); c.mayNameProgram() {
		return c
	}
	return nil
}

// commandTriggers returns phrases that make the command likely if a request contains them.
func commandTriggers(c *command) []string {
	if c.subcommand() != "" {
		return []string{c.name(), c.program}
	}
	return []string{c.program}
}

// optionTriggers returns the triggers for a lesson about an option. The name of a program with subcommands is too
// common to be a trigger. A subcommand is enough only if the user named it.
func (ps *parsedSession) optionTriggers(c *command) []string {
	sub := c.subcommand()
	if sub == "" || slices.Contains([]string{"add", "build", "check", "create", "exec", "get", "install", "list", "new", "run", "start", "test", "up", "update"}, sub) {
		return commandTriggers(c)
	}
	for _, t := range ps.messages {
		if namesParameter(strings.ToLower(t.words), sub) {
			return []string{c.name(), sub}
		}
	}
	return []string{c.name()}
}
