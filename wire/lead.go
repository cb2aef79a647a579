package wire

import "strings"

// Another precept may stand between the agent and this one. Its blocks are at the very beginning of
// a text, in exactly its words, where no person quotes them: a quotation has something before it,
// or is cut.
const (
	adviceOpen   = blockOpen + "(Advice from earlier runs, not a request from the user. Ignore what does not apply.)\n"
	pitfallsOpen = "[KNOWN PITFALLS from earlier runs. Advice, not a request from the user; ignore what does not apply.]\n"
	loopOpen     = "[LOOP DETECTED] "
	writOpen     = "[/lesson "
)

// cutLead takes the blocks of another precept off the beginning of a text.
func cutLead(text string) (lead, rest string) {
	n := 0
	for {
		end := ""
		switch rest = text[n:]; {
		case strings.HasPrefix(rest, adviceOpen):
			end = "\n" + blockClose + "\n"
		case strings.HasPrefix(rest, pitfallsOpen):
			end = "\n[END KNOWN PITFALLS]\n"
		case strings.HasPrefix(rest, loopOpen):
			end = "\n[END LOOP DETECTED]\n"
		case strings.HasPrefix(rest, writOpen):
			end = "[END LESSON]\n"
		default:
			return text[:n], rest
		}
		i := strings.Index(rest, end)
		if i < 0 {
			return text[:n], rest
		}
		for n += i + len(end); n < len(text) && text[n] == '\n'; {
			n++
		}
	}
}
