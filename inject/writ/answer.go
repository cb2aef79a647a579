package writ

import "strings"

// Delimiters around an answer. They identify precept's own text in a conversation.
const (
	answerStart = "[/lesson "
	answerEnd   = "[END LESSON]\n"
)

// Answer formats a command's result for the agent. The text must be precept's own words, or must have been made safe by
// lesson.SanitizeLine.
func Answer(command string, ok bool, result string, lines ...string) string {
	word := "OK"
	if !ok {
		word = "ERROR"
	}
	lines = append([]string{answerStart + command + "]", word + ": " + result}, lines...)
	return strings.Join(lines, "\n") + "\n" + answerEnd
}

// Join makes one block from the answers.
func Join(answers []string) string { return strings.Join(answers, "") + "\n" }

// Advertisement informs an agent about the commands.
const Advertisement = answerStart + `help] You can keep notes for later runs. Put a command on a line of its own in a reply:
/lesson SIGNATURE: TEXT (SIGNATURE says when it applies, TEXT what to do then)
/lesson SIGNATURE, then lines of text, then /endlesson
/lesson list, /lesson search WORDS, /lesson delete ID
Write only what would help in another task. The answer precedes the next message or tool result.
` + answerEnd + "\n"

// NoRoom informs an agent that the commands were carried out, but the session has no room for the answers.
const NoRoom = answerStart + `help] The commands of your last reply were carried out. Their answers are left out, because
the answers of this session have reached the maximum size. Do not repeat the commands.
` + answerEnd + "\n"
