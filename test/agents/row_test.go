package agents

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

type row struct {
	name  string
	cells map[string]cell
}

type cell struct {
	note         string // shown instead of "ok" if the check passed; "" for none
	problem      string // "" if the check passed
	inapplicable bool
}

func columns() []string {
	return []string{"exit", "requests", "prefix", "bytes", "lesson", "error", "loop", "side", "session", "new", "counts", "429", "500", "cut", "end", "restart", "parallel", "interrupt", "compact", "refused", "scan", "kept", "cutout"}
}

const legend = `exit      the exit codes are equal to those of a direct run (without precept)
requests  as many main requests as in a direct run, and the same requests to other endpoints
prefix    the messages of each request begin with those of the previous request, if this holds for the agent's own list
bytes     without the inserted blocks, each request is equal to the agent's request
lesson    exactly one lesson block in each request
error     exactly one block of the lesson that matches a tool's error, from this error on
loop      exactly one loop warning, from the second equal failure on, unchanged
side      side requests (outside of the conversation) reach the model unchanged
session   all requests, also of the resumed conversation, belong to one session
new       a new conversation with the same words is another session, with one lesson block
counts    the metrics of precept have the numbers of sessions, matches, injections and loops; a retry counts nothing
429 500 cut   the retry has the session and the messages of the request that was refused, failed or was cut
end       after a stream without an end marker the agent reacts as in a direct run
restart   precept is restarted with its data: the resumed conversation has the same session and the same block
parallel  two agents with the same words at the same time have two sessions, each with its own blocks
interrupt ^C during a reply closes the connection to the model; the resumed conversation has the same session and block
compact   the agent replaces its history by a summary: the requests of a direct run, one session, at most one block
refused   the model refuses blocks: precept repeats the request once without blocks, and the agent sees no refusal
scan      precept rules scan finds the rules file of the project with all its sections
kept      two sections of the rules file are measured: requests and exit codes as in a direct run, and the kept section is in each request
cutout    the section that the coin cuts is in no main request; all other bytes are equal to the agent's
-         does not apply to this agent
`

func (r *row) set(column, note string, problems ...string) {
	if r.cells == nil {
		r.cells = map[string]cell{}
	}
	r.cells[column] = cell{note: note, problem: strings.Join(problems, "; ")}
}

func (r *row) notApplicable(columns ...string) {
	for _, c := range columns {
		r.set(c, "")
		r.cells[c] = cell{inapplicable: true}
	}
}

func (r *row) report(t *testing.T) {
	t.Helper()
	for _, c := range append(columns(), "control") {
		if f := r.cells[c].problem; f != "" {
			t.Errorf("%s: fault: %s", c, f)
		}
	}
}

func (c cell) String() string {
	switch {
	case c.problem != "":
		return "FAIL"
	case c.inapplicable:
		return "-"
	case c.note != "":
		return c.note
	}
	return "ok"
}

// matrix returns the rows as a table. Skipped agents have no cells and are omitted.
func matrix(rows []*row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-26s", "agent")
	for _, c := range columns() {
		fmt.Fprintf(&b, " %-*s", max(len(c), 5), c)
	}
	b.WriteByte('\n')
	for _, r := range rows {
		if len(r.cells) > 0 {
			b.WriteString(r.line() + "\n")
		}
	}
	return b.String() + "\n" + legend
}

func (r *row) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-26s", r.name)
	for _, c := range columns() {
		x, ok := r.cells[c]
		if !ok {
			x.inapplicable = true
		}
		fmt.Fprintf(&b, " %-*s", max(len(c), 5), x)
	}
	return strings.TrimRight(b.String(), " ")
}

func nonEmpty(problems ...string) []string {
	return slices.DeleteFunc(problems, func(s string) bool { return s == "" })
}

func problemUnless(ok bool, format string, args ...any) string {
	if ok {
		return ""
	}
	return fmt.Sprintf(format, args...)
}
