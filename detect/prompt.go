package detect

import (
	"slices"
	"strings"
)

// A program that runs in the background or in a terminal can wait for an answer, for example for a password. The agent
// takes the program for slow, and reads the output again and again.

// minPromptPolls is the number of reads without input while the program waits for an answer. The first read can be the
// one that shows the prompt.
const minPromptPolls = 4

// readPrompt reads the output of a command or of a call to a running program. isQuietPoll reports whether the call gave
// no input, and the output is empty or ends in a prompt. showsPrompt reports whether the output ends in a prompt.
// endsPrompt reports whether the call gave input and the output does not end in a prompt.
func (c *toolCall) readPrompt(text string) (isQuietPoll, showsPrompt, endsPrompt bool) {
	const maxScreen = 16 << 10 // bytes
	input, hasInput := c.args.get("chars", "keystrokes", "keys", "input")
	polls := c.purpose == purposeWait && len(c.shell.parts) == 0 || hasInput && isBlankInput(input)
	if !polls && !hasInput && c.purpose != purposeExec || len(text) > maxScreen {
		return false, false, false
	}
	output := text
	if _, after, ok := strings.Cut(text, "<stdout>"); ok {
		output, _, _ = strings.Cut(after, "</stdout>")
	} else if _, after, ok := strings.Cut(text+"\n", "\nOutput:\n"); ok { // Codex
		output = after
	}
	output = strings.TrimSpace(output)
	showsPrompt = isPrompt(plainLine(output[strings.LastIndexByte(output, '\n')+1:]))
	return polls && (output == "" || showsPrompt), showsPrompt, hasInput && !polls && !showsPrompt
}

// isBlankInput matches "", "\n", "Enter" and lists of these.
func isBlankInput(v lenientValue) bool {
	switch v.kind {
	case arrayValue:
		return !slices.ContainsFunc(v.vals, func(key lenientValue) bool { return !isBlankInput(key) })
	case stringValue, noValue:
	case boolValue, numberValue, objectValue:
		return false
	}
	text := strings.ToLower(strings.TrimSpace(v.text()))
	return text == "" || text == "enter" || text == `\n`
}

// isPrompt reports whether the last line of a screen asks for an answer, or shows that the shell waits for the rest of
// a command.
func isPrompt(line string) bool {
	const maxPrompt = 200
	if len(line) > maxPrompt {
		return false
	}
	low := strings.ToLower(line)
	return slices.Contains([]string{">", "quote>", "dquote>", "bquote>", "heredoc>", "cmdsubst>", "pipe>"}, low) ||
		hasAnySuffix(strings.TrimRight(low, " ?:›»>"), []string{
			"(y/n)", "[y/n]", "(yes/no)", "[yes/no]", "(y)", "[y]", "(yes)", "(n)", "[y/n/a]", "(yes/no/[fingerprint])", "[y/n/q]", "do you want to continue", "ok to proceed",
		}) ||
		hasAnySuffix(low, []string{"password:", "passphrase:", "passcode:", "verification code:", "username:", "passwort:", "mot de passe :", "contraseña:"}) ||
		hasAnyPrefix(low, []string{"enter passphrase", "password for ", "username for ", "[sudo] password", "press any key", "press enter", "press return", "--more--"}) && (!strings.HasSuffix(low, ".") || strings.HasSuffix(strings.ReplaceAll(low, " ", ""), "..."))
}

// waitsAtPrompt reports whether the polled program waits for an answer, and the agent has read the output
// minPromptPolls times without giving one. The search ends at a user turn, a warning, an answer to the program, or
// other output of a running program.
func waitsAtPrompt(steps func(int) *step) bool {
	count, batch, sawPrompt := 0, -1, false
	for i := range maxStuckSteps {
		s := steps(i)
		if s == nil || s.isUser || s.hasWarning {
			return false
		}
		outcome := s.judgement().Outcome
		switch {
		case s.memo.isQuietPoll && s.batch != batch:
			count, batch = count+1, s.batch
		case s.memo.isQuietPoll:
		case i == 0 || s.memo.endsPrompt || !s.memo.showsPrompt && (outcome == Pending || outcome == Refusal):
			return false
		}
		if sawPrompt = sawPrompt || s.memo.showsPrompt; sawPrompt && count >= minPromptPolls {
			return true
		}
	}
	return false
}
