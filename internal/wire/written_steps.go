package wire

import (
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Some agents write all that has happened so far into one message that grows. The oldest form of
// ReAct is such a scratchpad: the rules, the question, and behind it every thought, action and
// observation, up to a thought that the model is to go on with. Rules and examples are written in
// the same words; what has happened stands behind the question. dspy calls it a trajectory, and
// gives each thought, call and observation a head of its own.

// step is a call in such a message, and what came of it.
type step struct {
	number   int
	action   string // scratchpad: the text that makes the call
	thought  string // trajectory: what was thought before it
	call     Call
	observed string
	line     int    // of the message, where the observation begins,
	label    string // and what that line begins with, as it stands in a JSON string; text goes behind it
}

// did makes the user's item the one that holds the calls and results of its steps.
func (it *Item) did(steps []step) {
	for _, s := range steps {
		failed := int8(0)
		if s.action != "" {
			var ok bool
			if s.call, ok = padCall(s.action); !ok || s.observed == "" {
				continue
			}
		} else if strings.HasPrefix(s.observed, "Execution error in ") { // dspy's own words
			failed = 1
		}
		s.call.ID = writtenID(&s.call, s.observed) + "." + strconv.Itoa(s.number)
		it.steps, it.Calls = append(it.steps, s), append(it.Calls, s.call)
		it.Results = append(it.Results, Result{CallID: s.call.ID, Text: s.observed, Block: s.number, Written: true, Own: true, IsError: failed})
	}
}

// writtenPlace is the place at the top of the observation of that number, in the string of item i
// that holds it.
func (r *Request) writtenPlace(i, number int) (place, bool) {
	steps := r.Item(i).steps
	at := slices.IndexFunc(steps, func(s step) bool { return s.number == number })
	if at < 0 {
		return place{}, false
	}
	s := &steps[at]
	line := s.line
	for _, p := range r.parts(i) {
		if p.kind != textPart {
			continue
		}
		starts := lineStarts(p.text.of(r.Body))
		if line < len(starts) {
			top := p.text.start + starts[line]
			return place{at: top + len(s.label), form: inString}, r.begins(top, s.label)
		}
		line -= len(starts)
	}
	return place{}, false
}

// lineStarts are the offsets at which the lines of the text in a JSON string begin.
func lineStarts(literal []byte) []int {
	starts := []int{1}
	for i := 0; i < len(literal); i++ {
		if literal[i] == '\\' {
			if i++; literal[i] == 'n' {
				starts = append(starts, i+1)
			}
		}
	}
	return starts
}

const observationLabel = "Observation"

// maxPad is how many steps a scratchpad may have that is read.
const maxPad = 4096

// scratchpad cuts such a message: what was asked, and what has been done since.
func scratchpad(text string) (asked string, steps []step, ok bool) {
	if !strings.Contains(text, "\n"+observationLabel) {
		return "", nil, false
	}
	begin, from, number := -1, 0, 0 // where the steps begin, where what is read now does, and in which line
	observing := false
	for at := 0; at < len(text); number++ {
		line, _, _ := strings.Cut(text[at:], "\n")
		label, said := stepLabel(line)
		if begin >= 0 && observing && label != "" && label != observationLabel {
			steps[len(steps)-1].observed = strings.TrimSpace(text[from:at])
			observing, from = false, at
		}
		switch {
		case strings.HasPrefix(line, "Question:") || strings.HasPrefix(line, "Final Answer:") || line == "Begin!":
			begin, steps, observing = -1, nil, false
		case begin < 0 && (label == "Thought" || label == "Action"):
			begin, from = at, at
		case begin >= 0 && label == observationLabel && !observing:
			head := line[:len(line)-len(said)]
			steps = append(steps, step{number: len(steps), action: text[from:at], line: number, label: head})
			observing, from = true, at+len(head)
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

// padCall reads the call of a scratchpad's step.
func padCall(action string) (Call, bool) {
	if strings.Contains(action, "\nAction Input:") {
		return actionCall(action)
	}
	c, _ := anyCall(action)
	return c, c.Name != ""
}

const (
	fieldMark      = "[[ ## "
	trajectoryMark = "\n[[ ## trajectory ## ]]\n"
	respondMark    = "\n\nRespond with the corresponding output fields, starting with the field "
)

// trajectory cuts the message of dspy's ReAct: the fields that were asked with, and what has
// happened since.
func trajectory(text string) (asked string, steps []step, ok bool) {
	if !strings.HasPrefix(text, fieldMark) {
		return "", nil, false
	}
	asked, done, ok := strings.Cut(text, trajectoryMark)
	if i := strings.LastIndex(done, respondMark); i >= 0 {
		done = done[:i]
	}
	number := strings.Count(asked+trajectoryMark, "\n") - 1 // of the line
	var now step
	field, value := "", []string(nil)
	ends := func() { // the field
		text := strings.TrimSpace(strings.Join(value, ""))
		switch field {
		case "thought":
			now.call, now.thought = Call{}, text
		case "tool_name":
			now.call.Name = text
		case "tool_args":
			now.call.Args = text
		case "observation":
			now.observed = text
			steps = append(steps, now)
		}
	}
	for line := range strings.Lines(done) {
		number++
		kind, of, head := stepHead(strings.TrimSuffix(line, "\n"))
		if !head {
			value = append(value, line)
			continue
		}
		ends()
		field, value = kind, nil
		now.number, now.line, now.label = of, number, strings.TrimSuffix(line, "\n")+`\n`
	}
	ends()
	return strings.TrimSpace(asked), steps, ok
}

// stepHead reads the head of a field, observation_3 in [[ ## observation_3 ## ]], alone in its
// line.
func stepHead(line string) (kind string, number int, ok bool) {
	name, ok := strings.CutPrefix(line, fieldMark)
	name, closed := strings.CutSuffix(name, " ## ]]")
	i := strings.LastIndexByte(name, '_')
	n, err := strconv.ParseUint(name[i+1:], 10, 16)
	kind = name[:max(i, 0)]
	return kind, int(n), ok && closed && err == nil && slices.Contains([]string{"thought", "tool_name", "tool_args", "observation"}, kind)
}

// stepKey is the key of the newest step of a trajectory. The reply that asked for the step has the
// same key.
func stepKey(thought string, c *Call) string {
	return "t:" + hex16(mix(xxhash.Sum64String(strings.TrimSpace(thought)), xxhash.Sum64String(EchoCall(c))))
}

// replyStep reads the step that a reply in dspy's form asks for.
func replyStep(text string) (key string, ok bool) {
	if !strings.Contains(text, "[[ ## next_tool_name ## ]]") {
		return "", false
	}
	field := func(name string) string {
		_, rest, _ := strings.Cut(text, "[[ ## "+name+" ## ]]")
		value, _, _ := strings.Cut(rest, "\n"+fieldMark)
		return strings.TrimSpace(value)
	}
	return stepKey(field("next_thought"), &Call{Name: field("next_tool_name"), Args: field("next_tool_args")}), true
}
