package wire

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Some agents speak with their model in plain text: an answer holds the call, and the message
// behind it, in the user's place, what came of it. A text counts as a result only where it begins
// in the words of a known agent, and as a call only where such a result answers it, so that a
// person who pastes a log, and a model that shows a command, are what they are.

// maxApart is how many items may stand between an answer and its result: aider puts its own notes
// there.
const maxApart = 8

// report is what the text of a user's message tells of a call.
type report struct {
	text   string
	failed bool
	call   *Call // it names the call itself
	asks   asks  // else it answers an answer of this form
	apart  bool  // which need not be the one right before it
}

// asks is how an agent writes its calls.
type asks uint8

const (
	asksNothing asks = iota
	asksAction       // smolagents, ReAct
	asksShell        // mini-swe-agent
	asksEdit         // aider
)

// readReport reads the text of a user's message, without precept's own blocks.
func readReport(s string) (report, bool) {
	switch {
	case s == "":
		return report{}, false
	case s[0] == 'O' || s[0] == 'E' || s[0] == 'C':
		return actionReport(s)
	case strings.HasPrefix(s, "<returncode>") || strings.HasPrefix(s, "<exception>") && strings.Contains(s, "<returncode>"):
		return report{text: s, failed: s[1] == 'e', asks: asksShell}, true
	case strings.HasPrefix(s, "# ") && strings.Contains(s[:min(len(s), 80)], " SEARCH/REPLACE block"):
		return report{text: withoutRules(s), failed: true, asks: asksEdit, apart: true}, true
	case strings.HasPrefix(s, lintHead):
		return report{text: withoutRules(s), failed: true}, true
	case strings.HasPrefix(s, ranHead):
		return ranReport(s)
	}
	return report{}, false
}

const (
	lintHead = "# Fix any errors below, if possible.\n"
	ranHead  = "I ran this command:\n\n"
	ranTail  = "\n\nAnd got this output:\n\n"

	retryTail = "\nNow let's retry: take care not to repeat previous errors!"
)

// actionReport reads the observations of ReAct, and the errors of smolagents.
func actionReport(s string) (report, bool) {
	for _, head := range [...]string{"Observation:", "OBSERVATION:"} {
		if rest, ok := strings.CutPrefix(s, head); ok {
			return report{text: strings.TrimSpace(rest), asks: asksAction}, true
		}
	}
	if strings.HasPrefix(s, "EXECUTION RESULT of [") {
		return report{text: s, asks: asksAction}, true
	}
	if id, rest, ok := strings.Cut(s, "\n"); ok && strings.HasPrefix(id, "Call id: ") {
		s = rest
	}
	if rest, ok := strings.CutPrefix(s, "Error:\n"); ok {
		if text, _, ok := strings.Cut(rest, retryTail); ok {
			return report{text: text, failed: true, asks: asksAction}, true
		}
	}
	return report{}, false
}

// ranReport reads what aider tells of a command: a test that it ran, or one that the person let it
// run.
func ranReport(s string) (report, bool) {
	command, output, ok := strings.Cut(s[len(ranHead):], ranTail)
	if !ok || strings.Contains(command, "\n\n") {
		return report{}, false
	}
	return report{text: strings.TrimSpace(withoutRules(output)), call: &Call{Name: "bash", Args: commandArgs(command)}}, true
}

func withoutRules(s string) string {
	for _, head := range rulesHead() {
		s, _, _ = strings.Cut(s, head)
	}
	return strings.TrimSpace(s)
}

// noted says whether an agent tells its model what it did, in the user's place: nobody asked for it
// and no call brought it.
func noted(s string) bool {
	switch {
	case s == "" || s[0] != 'I' && s[0] != 'F' && s[0] != 'H':
		return false
	case s == "I updated the files.":
		return true
	}
	return strings.HasPrefix(s, "Format error:\n\n<error>\n") || strings.HasPrefix(s, "I have *added these files to the chat*")
}

// commandArgs is a command as the arguments of a call.
func commandArgs(command string) string {
	return string(append(appendEscaped([]byte(`{"command":"`), strings.TrimSpace(command)), `"}`...))
}

// find reads the call in an answer.
func (a asks) find(text string) (Call, bool) {
	switch a {
	case asksAction:
		return actionCall(text)
	case asksShell:
		if code, ok := lastFenced(text); ok {
			return Call{Name: "bash", Args: commandArgs(code)}, true
		}
	case asksEdit:
		return editCall(text)
	case asksNothing:
	}
	return Call{}, false
}

// actionCall reads a call in the forms of smolagents and of ReAct, else the last block of code.
func actionCall(text string) (Call, bool) {
	if _, list, ok := strings.Cut(text, "Calling tools:\n"); ok {
		if c, ok := listedCall(list); ok {
			return c, true
		}
	}
	if i := strings.LastIndex(text, "\nAction Input:"); i >= 0 {
		before := text[:i]
		if j := strings.LastIndex(before, "Action:"); j >= 0 && (j == 0 || before[j-1] == '\n') {
			name := strings.TrimSpace(before[j+len("Action:"):])
			input, _, _ := strings.Cut(text[i+len("\nAction Input:"):], "\nObservation")
			return Call{Name: name, Args: strings.TrimSpace(input)}, name != "" && len(name) < 128
		}
	}
	if i := strings.LastIndex(text, "<code>"); i >= 0 {
		code, _, _ := strings.Cut(text[i+len("<code>"):], "</code>")
		return Call{Name: "python_interpreter", Args: strings.TrimSpace(code)}, true
	}
	if code, ok := lastFenced(text); ok {
		return Call{Name: "bash", Args: commandArgs(code)}, true
	}
	return Call{}, false
}

// listedCall reads what smolagents writes of its calls, as Python prints them. Of several it is the
// first one's name and everything that they ask for.
func listedCall(list string) (Call, bool) {
	var c Call
	for range 16 {
		_, rest, ok := strings.Cut(list, "'function': {'name': '")
		if !ok {
			break
		}
		name, rest, _ := strings.Cut(rest, "'")
		_, args, ok := strings.Cut(rest, "'arguments': ")
		if !ok {
			break
		}
		end := strings.Index(args, "}}, {'id': ")
		if end < 0 {
			end = len(strings.TrimSuffix(strings.TrimSpace(args), "}}]"))
		}
		if c.Name == "" {
			c.Name, c.Args = name, args[:end]
		} else {
			c.Args += "\n" + name + " " + args[:end]
		}
		list = args[end:]
	}
	return c, c.Name != ""
}

// lastFenced is the last block of code between fences that is closed.
func lastFenced(text string) (string, bool) {
	end := strings.LastIndex(text, "\n```")
	if end < 0 {
		return "", false
	}
	start := strings.LastIndex(text[:end+1], "```")
	if start < 0 || start > 0 && text[start-1] != '\n' {
		return "", false
	}
	_, code, ok := strings.Cut(text[start:end+1], "\n")
	return strings.TrimSpace(code), ok && strings.TrimSpace(code) != ""
}

// editCall reads aider's edits: everything from the first one's file on.
func editCall(text string) (Call, bool) {
	i := strings.Index(text, "<<<<<<< SEARCH\n")
	j := strings.LastIndex(text, ">>>>>>> REPLACE")
	if i < 0 || j < i {
		return Call{}, false
	}
	if at := strings.LastIndex(strings.TrimRight(text[:max(0, strings.LastIndex(text[:i], "```"))], "\n"), "\n"); at >= 0 {
		i = at + 1
	}
	return Call{Name: "search_replace", Args: strings.TrimSpace(text[i : j+len(">>>>>>> REPLACE")])}, true
}

func hex16(n uint64) string { return strconv.FormatUint(n, 16) }

// writtenID names a call that stands in a text by what it asked for and what came of it.
func writtenID(c *Call, text string) string {
	var d xxhash.Digest
	d.Reset()
	for _, s := range [...]string{c.Name, c.Args, text} {
		_, _ = d.WriteString(s)
		_, _ = d.Write([]byte{0})
	}
	return writtenMark + hex16(d.Sum64())
}

const writtenMark = unnamedMark + "w"

// IsWritten says whether the call stands in a text, as agents write it that have no tools on the
// wire.
func (c *Call) IsWritten() bool { return strings.HasPrefix(c.ID, writtenMark) }

// readWritten fills the results that stand in a user's item as text.
func (r *Request) readWritten(it *Item) {
	if !it.HasText || len(it.Results) > 0 {
		return
	}
	if strings.HasPrefix(it.Text, fieldMark) {
		r.readTrajectory(it)
		return
	}
	lead, rest := cutLead(it.Text)
	rep, ok := readReport(strings.TrimSpace(rest))
	if !ok {
		return
	}
	res := Result{Text: rep.text, Lead: lead, Block: -1, Written: true}
	if rep.failed {
		res.IsError = 1
	}
	c, from := Call{}, -1
	switch {
	case rep.call != nil:
		c, from = *rep.call, it.Index
	case rep.asks != asksNothing:
		c, from = r.askedBefore(it.Index, &rep)
	}
	res.CallID = writtenID(&c, rep.text)
	if from >= 0 {
		c.ID = res.CallID
		it.wrote, it.wroteAt = c, from
	}
	if from == it.Index {
		it.Calls, res.Own = []Call{c}, true
	}
	it.Results = []Result{res}
}

// askedBefore finds the call that a report in item i answers, and the item that holds it, -1 for
// none.
func (r *Request) askedBefore(i int, rep *report) (Call, int) {
	for j := i - 1; j >= max(0, i-maxApart); j-- {
		if r.list[j].role == RoleAssistant {
			if c, ok := rep.asks.find(r.saidAt(j)); ok {
				return c, j
			}
			if !rep.apart {
				break
			}
		} else if !rep.apart {
			break
		}
	}
	return Call{}, -1
}

// saidAt is the text of the model's item i, read without decoding the item: its calls depend on
// what stands behind it.
func (r *Request) saidAt(i int) string {
	if it := r.items[i]; it != nil {
		return it.Text
	}
	return joinText(r.Body, contentParts(r.Body, member(r.Body, r.at(i), "content")))
}

// readWrittenCalls fills the calls that stand in the model's text, where their results are known.
func (r *Request) readWrittenCalls(it *Item) {
	if len(it.Calls) > 0 || !asking(it.Text) {
		return
	}
	for i := it.Index + 1; i < min(it.Index+1+maxApart, len(r.list)); i++ {
		if r.list[i].role != RoleUser {
			if r.list[i].role != RoleAssistant {
				return
			}
			continue
		}
		if answer := r.Item(i); len(answer.Results) > 0 && answer.Results[0].Written {
			if answer.wrote.ID != "" && answer.wroteAt == it.Index {
				it.Calls = []Call{answer.wrote}
			}
			return
		}
	}
}

// asking says whether a text may hold a call at all.
func asking(text string) bool {
	return strings.Contains(text, "```") || strings.Contains(text, "<code>") || strings.Contains(text, "Calling tools:\n") || strings.Contains(text, "Action Input:")
}

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
	value := 0 // where the value of the last field begins
	for at := 0; at < len(done); {
		line, _, _ := strings.Cut(done[at:], "\n")
		next := at + len(line) + 1
		name, ok := strings.CutPrefix(line, fieldMark)
		name, closed := strings.CutSuffix(name, " ## ]]")
		kind, number, _ := cutLast(name, '_')
		if ok = ok && closed && isStepField(kind, number); ok || next > len(done) {
			if n := len(fields); n > 0 {
				end := at
				if !ok {
					end = len(done)
				}
				fields[n-1].value = strings.TrimSpace(done[value:end])
			}
		}
		if ok {
			fields, value = append(fields, stepField{kind: kind, number: number}), min(next, len(done))
		}
		at = next
	}
	if n := len(fields); n > 0 && fields[n-1].value == "" {
		fields[n-1].value = strings.TrimSpace(done[value:])
	}
	return fields
}

func cutLast(s string, sep byte) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

func isStepField(kind, number string) bool {
	if number == "" || len(number) > 9 || strings.Trim(number, "0123456789") != "" {
		return false
	}
	switch kind {
	case "thought", "tool_name", "tool_args", "observation":
		return true
	}
	return false
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

// stepKey tells the newest step of a trajectory: the reply that asked for it has the same.
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
	at := r.at(i)
	if r.Body[at.start] == '{' {
		at = member(r.Body, at, "content")
	}
	parts := contentParts(r.Body, at)
	if len(parts) == 0 || parts[0].kind != textPart || !bytes.HasPrefix(parts[0].text.inner().of(r.Body), []byte(fieldMark)) {
		return place{}, false
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
