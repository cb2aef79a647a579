package writ

import "strings"

// The delimiters of an answer. What strips precept's own words out of a conversation knows them.
const (
	opening = "[/lesson "
	ending  = "[END LESSON]\n"
)

// Answer words what became of a command. Its words are precept's own, or were rendered for a model.
func Answer(v Verb, ok bool, said string, lines ...string) string {
	word := "OK"
	if !ok {
		word = "ERROR"
	}
	head := opening + string(v) + "] " + word + ": " + said
	if len(lines) == 0 {
		return head + " " + ending
	}
	return head + "\n" + strings.Join(lines, "\n") + "\n" + ending
}

// Join makes one block out of answers.
func Join(answers []string) string { return strings.Join(answers, "") + "\n" }

// Advertisement says to an agent which commands there are.
const Advertisement = opening + `help] You can keep notes for later runs. Put a command on a line of its own in a reply:
/lesson SIGNATURE: TEXT (SIGNATURE says when it applies, TEXT what to do then)
/lesson SIGNATURE, then lines of text, then /endlesson
/lesson list, /lesson search WORDS, /lesson delete ID
Write down only what would help in another task. The answer stands before the next message or tool result.
` + ending + "\n"
