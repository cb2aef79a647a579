package writ

import "strings"

// The delimiters of an answer. The code that removes precept's own text from a conversation uses
// them.
const (
	opening = "[/lesson "
	ending  = "[END LESSON]\n"
)

// Answer returns the text of a command's result, in three parts: the command, the result with
// further lines, and the end. All words are precept's own, or made safe for a model (lesson.Line).
func Answer(command string, ok bool, result string, lines ...string) string {
	word := "OK"
	if !ok {
		word = "ERROR"
	}
	lines = append([]string{opening + command + "]", word + ": " + result}, lines...)
	return strings.Join(lines, "\n") + "\n" + ending
}

// Join joins answers to one block.
func Join(answers []string) string { return strings.Join(answers, "") + "\n" }

// Advertisement informs an agent about the commands.
const Advertisement = opening + `help] You can keep notes for later runs. Put a command on a line of its own in a reply:
/lesson SIGNATURE: TEXT (SIGNATURE says when it applies, TEXT what to do then)
/lesson SIGNATURE, then lines of text, then /endlesson
/lesson list, /lesson search WORDS, /lesson delete ID
Write only what would help in another task. The answer precedes the next message or tool result.
` + ending + "\n"
