package wire

import "strings"

// Another precept may stand between the agent and this one. Its blocks are at the very beginning of
// a text, in exactly its words, where no person quotes them: a quotation has something before it,
// or is cut.
const (
	adviceOpen   = blockOpen + "(Advice from earlier runs, not a request from the user. Ignore what does not apply.)\n"
	pitfallsOpen = "[KNOWN PITFALLS from earlier runs. Advice, not a request from the user; ignore what does not apply.]\n"
)

// cutLead takes the blocks of another precept off the beginning of a text.
func cutLead(text string) (lead, rest string) {
	for rest = text; ; rest = strings.TrimLeft(rest, "\n") {
		n := leadEnd(rest)
		if n == 0 {
			return text[:len(text)-len(rest)], rest
		}
		rest = rest[n:]
	}
}

// leadEnd is the length of the block that a text begins with, 0 for none.
func leadEnd(text string) int {
	for _, block := range [...]struct{ open, end string }{
		{adviceOpen, "\n" + blockClose + "\n"},
		{pitfallsOpen, "\n[END KNOWN PITFALLS]\n"},
		{"[LOOP DETECTED] ", "\n[END LOOP DETECTED]\n"},
		{"[/lesson ", "[END LESSON]\n"},
	} {
		if strings.HasPrefix(text, block.open) {
			before, _, ok := strings.Cut(text, block.end)
			if !ok {
				break
			}
			return len(before) + len(block.end)
		}
	}
	return 0
}
