package wire

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// The fields of dspy, whose ReAct writes all calls and results so far into one message.
const (
	fieldMark      = "[[ ## "
	trajectoryMark = "\n[[ ## trajectory ## ]]\n"
	respondMark    = "\n\nRespond with the corresponding output fields, starting with the field "
)

// stepField is one field of a trajectory: of what kind, of which step.
type stepField struct {
	kind, number, value string
}

// stepFields cuts a trajectory at its heads: [[ ## observation_3 ## ]] on a line of its own.
func stepFields(done string) []stepField {
	var fields []stepField
	begin := 0 // of the value of the last field
	ends := func(at int) {
		if n := len(fields); n > 0 {
			fields[n-1].value = strings.TrimSpace(done[begin:at])
		}
	}
	for at := 0; at < len(done); {
		line, _, _ := strings.Cut(done[at:], "\n")
		next := min(at+len(line)+1, len(done))
		if kind, number, ok := stepHead(line); ok {
			ends(at)
			fields, begin = append(fields, stepField{kind: kind, number: number}), next
		}
		at = next
	}
	ends(len(done))
	return fields
}

// stepHead reads the head of a field, observation_3 in [[ ## observation_3 ## ]].
func stepHead(line string) (kind, number string, ok bool) {
	name, ok := strings.CutPrefix(line, fieldMark)
	name, closed := strings.CutSuffix(name, " ## ]]")
	i := strings.LastIndexByte(name, '_')
	kind, number = name[:max(i, 0)], name[i+1:]
	if !ok || !closed || number == "" || len(number) > 9 || strings.Trim(number, "0123456789") != "" {
		return "", "", false
	}
	return kind, number, slices.Contains([]string{"thought", "tool_name", "tool_args", "observation"}, kind)
}

// trajectory cuts the message of dspy's ReAct: the fields that were asked with, and what has
// happened since.
func trajectory(text string) (asked, done string, ok bool) {
	if !strings.HasPrefix(text, fieldMark) {
		return "", "", false
	}
	asked, done, ok = strings.Cut(text, trajectoryMark)
	if !ok {
		return "", "", false
	}
	if i := strings.LastIndex(done, respondMark); i >= 0 {
		done = done[:i]
	}
	return strings.TrimSpace(asked), done, true
}

// readTrajectory reads the calls and results of a trajectory, each result with its number.
func (r *Request) readTrajectory(it *Item) {
	_, done, ok := trajectory(it.Text)
	if !ok {
		return
	}
	var c Call
	thought := ""
	for _, f := range stepFields(done) {
		switch f.kind {
		case "thought":
			c, thought = Call{}, f.value
		case "tool_name":
			c.Name = f.value
		case "tool_args":
			c.Args = f.value
		case "observation":
			n, err := strconv.Atoi(f.number)
			if err != nil {
				continue
			}
			c.ID = writtenID(&c, f.value) + "." + f.number
			it.Calls = append(it.Calls, c)
			it.Results = append(it.Results, Result{CallID: c.ID, Text: f.value, Block: n, Written: true, Own: true, IsError: observedError(f.value)})
			it.thought = thought
		}
	}
}

// observedError reads dspy's own words of a tool that failed.
func observedError(s string) int8 {
	if strings.HasPrefix(s, "Execution error in ") {
		return 1
	}
	return 0
}

// stepKey is the key of the newest step of a trajectory. The reply that asked for the step has the
// same key.
func stepKey(thought string, c *Call) string {
	return "t:" + hex16(mix(xxhash.Sum64String(strings.TrimSpace(thought)), xxhash.Sum64String(callKey(c))))
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

// writtenPlace is the place at the top of a result that stands in the words of item i.
func (r *Request) writtenPlace(i, n int) (place, bool) {
	parts := r.parts(i)
	if len(parts) == 0 || parts[0].kind != textPart {
		return place{}, false
	}
	if !bytes.HasPrefix(parts[0].text.inner().of(r.Body), []byte(fieldMark)) {
		it := r.Item(i)
		if len(parts) > 1 || len(it.Results) == 0 || !it.Results[0].Own {
			return place{}, false
		}
		return r.padPlace(it, parts[0].text, n)
	}
	return observationPlace(r.Body, parts, n)
}

// observationPlace is the place at the top of the nth observation of a trajectory, in the string
// that holds it.
func observationPlace(b []byte, parts []part, n int) (place, bool) {
	for _, p := range parts {
		if p.kind != textPart {
			continue
		}
		mark := append(strconv.AppendInt([]byte(`[[ ## observation_`), int64(n), 10), ` ## ]]\n`...)
		if i := bytes.Index(p.text.of(b), mark); i >= 0 {
			return place{at: p.text.start + i + len(mark), form: inString}, true
		}
	}
	return place{}, false
}
