package wire

import (
	"bytes"
	"strconv"
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
	behind              int // how many lines begin as an observation does, from its own one to the end
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
			steps = append(steps, padStep{action: text[from:at], behind: seen})
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
	for i := range steps {
		steps[i].behind = seen - steps[i].behind
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
	for n, s := range steps {
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
		c.ID = writtenID(&c, s.observation) + "." + strconv.Itoa(n)
		it.Calls = append(it.Calls, c)
		it.Results = append(it.Results, Result{CallID: c.ID, Text: s.observation, Block: n, Written: true, Own: true})
	}
}

// padPlace is the place at the top of the nth observation, in the string that holds the scratchpad:
// its line begins behind an escaped end of line.
func (r *Request) padPlace(it *Item, text span, n int) (place, bool) {
	_, steps, ok := scratchpad(it.Text)
	if !ok || n >= len(steps) {
		return place{}, false
	}
	var lines []int
	raw := text.of(r.Body)
	for i := 0; i+1 < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		if i++; raw[i] == 'n' && bytes.HasPrefix(raw[i+1:], []byte(observationLabel)) {
			lines = append(lines, i)
		}
	}
	if len(lines) < steps[n].behind {
		return place{}, false
	}
	at := lines[len(lines)-steps[n].behind]
	colon := bytes.IndexByte(raw[at:], ':')
	if colon < 0 {
		return place{}, false
	}
	return place{at: text.start + at + colon + 1, form: inString}, true
}
