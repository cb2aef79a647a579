package wire

import (
	"bytes"
	"strings"
)

// The oldest form of ReAct is one message that grows: the rules, the question, and behind it every
// thought, action and observation so far, up to a thought that the model is to go on with. Rules
// and examples are written in the same words; what has happened stands behind the question.

const observationLabel = "Observation"

// maxPad is how many steps a scratchpad may have that is read.
const maxPad = 4096

// padStep is one action of a scratchpad and what came of it.
type padStep struct {
	action, observation string
	number              int // of the line that begins the observation, among those that begin so
}

// scratchpad cuts such a message: what was asked, and what has been done since.
func scratchpad(text string) (asked string, steps []padStep, ok bool) {
	if !strings.Contains(text, "\n"+observationLabel) {
		return "", nil, false
	}
	begin, from, seen := -1, 0, 0 // where the steps begin, and where what is read now does
	observing := false
	for at := 0; at < len(text); {
		line, _, _ := strings.Cut(text[at:], "\n")
		label, said := stepLabel(line)
		if begin >= 0 && observing && label != "" && label != observationLabel {
			steps[len(steps)-1].observation = strings.TrimSpace(text[from:at])
			observing, from = false, at
		}
		switch {
		case strings.HasPrefix(line, "Question:") || strings.HasPrefix(line, "Final Answer:") || line == "Begin!":
			begin, steps, observing = -1, nil, false
		case begin < 0 && (label == "Thought" || label == "Action"):
			begin, from = at, at
		case begin >= 0 && label == observationLabel && !observing:
			steps = append(steps, padStep{action: text[from:at], number: seen})
			observing, from = true, at+len(line)-len(said)
		}
		if at > 0 && strings.HasPrefix(line, observationLabel) {
			seen++
		}
		if label == "Thought" {
			ok = strings.TrimSpace(said) == "" && len(steps) > 0
		}
		at += len(line) + 1
	}
	if begin < 0 || !ok || len(steps) > maxPad {
		return "", nil, false
	}
	return strings.TrimSpace(text[:begin]), steps, true
}

// stepLabel is the label with which a line begins, counted or not, and what stands behind it.
func stepLabel(line string) (label, said string) {
	head, said, ok := strings.Cut(line, ":")
	if !ok || len(head) > 20 {
		return "", ""
	}
	switch label = strings.TrimRight(head, " 0123456789"); label {
	case "Thought", "Action", "Action Input", observationLabel:
		return label, said
	}
	return "", ""
}

// withoutThought is a text without the empty thought that it ends with for the model to go on.
func withoutThought(s string) string {
	at := strings.LastIndexByte(s, '\n')
	if label, said := stepLabel(s[at+1:]); at >= 0 && label == "Thought" && strings.TrimSpace(said) == "" {
		return strings.TrimSpace(s[:at])
	}
	return s
}

// readScratchpad reads the calls and results of a scratchpad.
func (r *Request) readScratchpad(it *Item, steps []padStep) {
	for _, s := range steps {
		c, ok := Call{}, false
		if strings.Contains(s.action, "\nAction Input:") {
			c, ok = actionCall(s.action)
		} else {
			c, _ = anyCall(s.action)
			ok = c.Name != ""
		}
		if !ok || s.observation == "" {
			continue
		}
		c.ID = writtenID(&c, s.observation) + "." + hex16(uint64(s.number)) //nolint:gosec // a count
		it.Calls = append(it.Calls, c)
		it.Results = append(it.Results, Result{CallID: c.ID, Text: s.observation, Block: s.number, Written: true, Own: true})
	}
}

// padPlace is the place at the top of an observation, in the string that holds the scratchpad: its
// line begins behind an escaped end of line.
func padPlace(b []byte, text span, number int) (place, bool) {
	raw := text.of(b)
	for i, seen := 0, 0; i+1 < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		if raw[i] != 'n' || !bytes.HasPrefix(raw[i+1:], []byte(observationLabel)) {
			continue
		}
		if seen++; seen <= number {
			continue
		}
		colon := bytes.IndexByte(raw[i:], ':')
		if colon < 0 {
			return place{}, false
		}
		at := i + colon + 1
		for at < len(raw) && raw[at] == ' ' {
			at++
		}
		return place{at: text.start + at, form: inString}, true
	}
	return place{}, false
}
