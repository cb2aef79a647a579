package distill

import (
	"fmt"
	"slices"
	"strings"

	"precept/detect"
	"precept/internal/sample"
)

// sessionPart is one message, call, result or rating as text for a judge.
type sessionPart struct {
	text       string
	hasTrouble bool // the part is a failed call, a refusal or a correction
}

// hasTrouble reports whether the session has a failed or refused call, a correction, a bad rating, or an unfinished
// reply.
func (s *Session) hasTrouble() bool {
	if slices.ContainsFunc(s.parts(), func(p sessionPart) bool { return p.hasTrouble }) {
		return true
	}
	if slices.ContainsFunc(s.Content.Ratings, func(r sample.Rating) bool { return r.Score < goodRating }) {
		return true
	}
	return slices.ContainsFunc(s.Content.Exchanges, func(x sample.Exchange) bool { return x.Outcome != sample.Complete })
}

// goodRating is the lowest score without trouble.
const goodRating = 0.5

// parts returns a session's parts, without inserted blocks and without the middle of a long text.
func (s *Session) parts() (out []sessionPart) {
	previous := ""
	for _, e := range s.Content.Events() {
		plain := withoutBlocks(e.Text)
		text := cutMiddle(strings.ReplaceAll(plain, "</run>", "< /run>"), maxPartBytes)
		switch e.Role {
		case sample.EventUser:
			_, synthetic := detect.SyntheticRule(plain)
			feeling := detect.ClassifyTurn(e.Text, plain, previous).Feeling
			isOpposed := previous != "" && !synthetic && (feeling == detect.Correction || feeling == detect.Rejection)
			out = append(out, sessionPart{"USER: " + text, isOpposed})
		case sample.EventAssistant:
			previous = e.Text
			out = append(out, sessionPart{"AGENT: " + text, false})
		case sample.EventCall:
			out = append(out, sessionPart{"CALL " + e.Call.Name + ": " + cutMiddle(strings.ReplaceAll(e.Call.Args, "</run>", "< /run>"), maxPartBytes/2), false})
			if e.Answered {
				judged := detect.Classify(e.Call.Name, e.Call.Args, plain, e.IsError)
				out = append(out, sessionPart{"RESULT: " + text, judged.Outcome == detect.Error || judged.Outcome == detect.Refusal})
			}
			if previous == "" {
				previous = "…" // the agent wrote no text, but a correction may refer to its calls
			}
		}
	}
	return out
}

// formatSession returns a session's text for a judge. A long session is reduced to its beginning, its end, and the
// parts around trouble.
func formatSession(s *Session) string {
	parts := s.parts()
	if len(s.Content.Ratings) > 0 {
		r := s.Content.Ratings[len(s.Content.Ratings)-1]
		parts = append(parts, sessionPart{fmt.Sprintf("RATING (%s): %s, score %.2f", r.Source, r.Type, r.Score), false})
	}
	whole := make([]string, len(parts))
	size := 0
	for i, p := range parts {
		whole[i] = p.text
		size += len(p.text) + 1
	}
	if size <= maxQuestionBytes {
		return strings.Join(whole, "\n")
	}
	shown := chooseParts(parts)
	var out []string
	for i := range parts {
		switch {
		case shown[i]:
			out = append(out, whole[i])
		case i == 0 || shown[i-1]:
			out = append(out, "[...]")
		}
	}
	return strings.Join(out, "\n")
}

// chooseParts selects at most maxQuestionBytes bytes: the first part and the last three, then the parts nearest to
// trouble, and then parts from the beginning.
func chooseParts(parts []sessionPart) map[int]bool {
	const maxDistance = 8 // number of parts before and after a part with trouble
	shown, bytesLeft := map[int]bool{}, maxQuestionBytes
	show := func(i int) {
		if i < 0 || i >= len(parts) || shown[i] || len(parts[i].text) > bytesLeft {
			return
		}
		shown[i], bytesLeft = true, bytesLeft-len(parts[i].text)-len("\n[...]\n")
	}
	show(0)
	for i := range 3 {
		show(len(parts) - 1 - i)
	}
	for distance := range maxDistance {
		for i := range parts {
			if parts[i].hasTrouble {
				show(i - distance)
				show(i + distance)
			}
		}
	}
	for i := range parts {
		show(i)
	}
	return shown
}
