package wire

import (
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Some agents write all steps so far into one growing message. In the oldest ReAct form, the message is a scratchpad.
// It contains rules for the model and a question, then every thought, action and observation, and finally an empty
// thought, which the model completes. The rules can contain example steps, which do not count. dspy's message is a
// trajectory, with a line such as [[ ## thought_0 ## ]] before each thought, call and observation.

// step is a call with the result (observation) in a growing message.
type step struct {
	number      int
	action      string // scratchpad: text with the call
	thought     string // trajectory: thought before the call
	call        Call
	observation string
	line        int    // line where the observation begins
	label       string // first bytes of this line in the JSON string; text is inserted after the label
}

func (it *Item) setSteps(steps []step) {
	for _, s := range steps {
		failed := int8(0)
		if s.action != "" {
			var ok bool
			if s.call, ok = parseStepCall(s.action); !ok || s.observation == "" {
				continue
			}
		} else if strings.HasPrefix(s.observation, "Execution error in ") { // dspy's words
			failed = 1
		}
		s.call.ID = textCallID(&s.call, s.observation) + "." + strconv.Itoa(s.number)
		it.steps, it.Calls = append(it.steps, s), append(it.Calls, s.call)
		it.Results = append(it.Results, Result{CallID: s.call.ID, Text: s.observation, Block: s.number, InUserText: true, WithCall: true, IsError: failed})
	}
}

func (r *Request) observationPlace(i, number int) (place, bool) {
	steps := r.Item(i).steps
	at := slices.IndexFunc(steps, func(s step) bool { return s.number == number })
	if at < 0 {
		return place{}, false
	}
	s := &steps[at]
	starts := r.lineStarts(i)
	if s.line >= len(starts) {
		return place{}, false
	}
	top := starts[s.line]
	return place{offset: top + len(s.label), form: insideString}, r.hasPrefixAt(top, s.label)
}

// itemLines holds the body offsets at which the lines in an item's text start, so that locating 4,000 observations
// reads the text only once.
type itemLines struct {
	item   int
	starts []int
}

func (r *Request) lineStarts(i int) []int {
	if m := &r.memo.lines; m.starts == nil || m.item != i {
		*m = itemLines{item: i, starts: []int{}}
		for _, p := range r.parts(i) {
			if p.kind != textPart {
				continue
			}
			for _, start := range lineStarts(p.text.of(r.Body)) {
				m.starts = append(m.starts, p.text.start+start)
			}
		}
	}
	return r.memo.lines.starts
}

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

const maxScratchpadSteps = 4096 // a message with more steps is not read as a scratchpad

func parseScratchpad(text string) (asked string, steps []step, ok bool) {
	if !strings.Contains(text, "\n"+observationLabel) {
		return "", nil, false
	}
	begin, from, number := -1, 0, 0 // offset where the steps start, offset where the current piece starts, line number
	observing := false
	for at := 0; at < len(text); number++ {
		line, _, _ := strings.Cut(text[at:], "\n")
		label, content := stepLabel(line)
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
			head := line[:len(line)-len(content)]
			steps = append(steps, step{number: len(steps), action: text[from:at], line: number, label: head})
			observing, from = true, at+len(head)
		}
		if label == "Thought" {
			ok = strings.TrimSpace(content) == "" && len(steps) > 0
		}
		at += len(line) + 1
	}
	if begin < 0 || !ok || len(steps) > maxScratchpadSteps {
		return "", nil, false
	}
	return strings.TrimSpace(text[:begin]), steps, true
}

// stepLabel splits a line at the colon into the label, such as "Action", without a step number, and the text after the
// colon. If the label is not a scratchpad's, both results are empty.
func stepLabel(line string) (label, content string) {
	head, content, ok := strings.Cut(line, ":")
	if !ok || len(head) > 20 {
		return "", ""
	}
	switch label = strings.TrimRight(head, " 0123456789"); label {
	case "Thought", "Action", "Action Input", observationLabel:
		return label, content
	}
	return "", ""
}

// withoutEmptyThought removes a final "Thought:" line from a scratchpad.
func withoutEmptyThought(s string) string {
	at := strings.LastIndexByte(s, '\n')
	if label, text := stepLabel(s[at+1:]); at >= 0 && label == "Thought" && strings.TrimSpace(text) == "" {
		return strings.TrimSpace(s[:at])
	}
	return s
}

func parseStepCall(action string) (Call, bool) {
	if strings.Contains(action, "\nAction Input:") {
		return parseActionCall(action)
	}
	c, _ := parseAnyCall(action)
	return c, c.Name != ""
}

const (
	fieldMark      = "[[ ## "
	trajectoryMark = "\n[[ ## trajectory ## ]]\n"
	respondMark    = "\n\nRespond with the corresponding output fields, starting with the field "
)

func parseTrajectory(text string) (asked string, steps []step, ok bool) {
	if !strings.HasPrefix(text, fieldMark) {
		return "", nil, false
	}
	asked, done, ok := strings.Cut(text, trajectoryMark)
	if i := strings.LastIndex(done, respondMark); i >= 0 {
		done = done[:i]
	}
	number := strings.Count(asked+trajectoryMark, "\n") - 1 // line number
	var current step
	field, value := "", []string(nil)
	endField := func() {
		text := strings.TrimSpace(strings.Join(value, ""))
		switch field {
		case "thought":
			current.call, current.thought = Call{}, text
		case "tool_name":
			current.call.Name = text
		case "tool_args":
			current.call.Args = text
		case "observation":
			current.observation = text
			steps = append(steps, current)
		}
	}
	for line := range strings.Lines(done) {
		number++
		kind, stepNumber, head := parseStepHead(strings.TrimSuffix(line, "\n"))
		if !head {
			value = append(value, line)
			continue
		}
		endField()
		field, value = kind, nil
		current.number, current.line, current.label = stepNumber, number, strings.TrimSuffix(line, "\n")+`\n`
	}
	endField()
	return strings.TrimSpace(asked), steps, ok
}

// parseStepHead parses the line before a field, such as [[ ## observation_3 ## ]].
func parseStepHead(line string) (kind string, number int, ok bool) {
	name, ok := strings.CutPrefix(line, fieldMark)
	name, closed := strings.CutSuffix(name, " ## ]]")
	i := strings.LastIndexByte(name, '_')
	n, err := strconv.ParseUint(name[i+1:], 10, 16)
	kind = name[:max(i, 0)]
	return kind, int(n), ok && closed && err == nil && slices.Contains([]string{"thought", "tool_name", "tool_args", "observation"}, kind)
}

// stepKey returns the echo key (see EchoKeys) for a trajectory step. The reply with the call has the same key.
func stepKey(thought string, c *Call) string {
	return "t:" + hex16(combineHashes(xxhash.Sum64String(strings.TrimSpace(thought)), xxhash.Sum64String(CallEchoHash(c))))
}

func replyStepKey(text string) (key string, ok bool) {
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
