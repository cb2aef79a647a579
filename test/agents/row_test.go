package agents

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// row holds the measurements of one agent, one cell for each column.
type row struct {
	name  string
	cells map[string]cell
}

type cell struct {
	note  string // "" for a plain yes
	fault string // fault; "" for a pass
	empty bool   // the column does not apply to this agent
}

// columns returns the columns of the matrix.
func columns() []string {
	return []string{"exit", "requests", "prefix", "bytes", "lesson", "error", "loop", "side", "session", "new", "counts", "429", "500", "cut", "end", "restart", "parallel", "interrupt", "compact", "refused", "scan", "kept", "cutout"}
}

const legend = `exit      the exit codes are those of the direct run
requests  as many main requests as directly, and the same ones of other kinds
prefix    the list of each request begins with that of the one before, wherever the agent's own list does
bytes     what was inserted taken out, the agent's own bytes are left
lesson    exactly one lesson block, from the first request on
error     exactly one block of the lesson that fires on a tool's error, from that error on
loop      exactly one loop warning, from the second equal failure on, unchanged
side      requests beside the conversation reach the model as the agent sent them
session   one session over all requests, the resumed conversation included
new       the same words in a new conversation are another session, with a block of its own
counts    precept's metrics tell so many sessions, matches, injections and loops as there were; a repeated request adds none
429 500 cut   the repeated request is the same session and the same list as the refused, failed or cut one
end       a stream that ends without a finish: all goes on as directly
restart   precept is started anew on its data: the resumed conversation is the same session with the same block
parallel  two agents with the same words at the same time are two sessions, each with its own blocks
interrupt ^C in the middle of a reply ends it at the model; the resumed conversation is the same session with the same block
compact   the history gives way to a summary: the same requests as directly, the summary's untouched, one session, no second block
refused   an upstream that takes no block: each request is answered as directly, after one that precept sent again as it came
scan      precept rules scan finds the rules file of the project with all its sections
kept      two sections of the rules file are measured: as many requests as directly, equal exit codes, and the section that the coin keeps is in each request
cutout    the section that the coin cuts is in no request; all other bytes, and the side requests, are the agent's own
-         cannot be provoked with this agent, or the agent reads no rules file
`

// set fills a cell with a note, or with the faults that are not empty.
func (r *row) set(column, note string, faults ...string) {
	if r.cells == nil {
		r.cells = map[string]cell{}
	}
	r.cells[column] = cell{note: note, fault: strings.Join(faults, "; ")}
}

// none marks cells as not applicable.
func (r *row) none(columns ...string) {
	for _, c := range columns {
		r.set(c, "")
		r.cells[c] = cell{empty: true}
	}
}

// report reports the faults of a row to the test.
func (r *row) report(t *testing.T) {
	t.Helper()
	for _, c := range append(columns(), "control") {
		if f := r.cells[c].fault; f != "" {
			t.Errorf("%s: got %s, want no fault", c, f)
		}
	}
}

// String returns FAIL, the note, ok, or - for a cell that does not apply.
func (c cell) String() string {
	switch {
	case c.fault != "":
		return "FAIL"
	case c.empty:
		return "-"
	case c.note != "":
		return c.note
	}
	return "ok"
}

// matrix prints all rows as a table. A row without a cell was skipped.
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

// line prints a row of the table.
func (r *row) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-26s", r.name)
	for _, c := range columns() {
		x, ok := r.cells[c]
		if !ok {
			x.empty = true
		}
		fmt.Fprintf(&b, " %-*s", max(len(c), 5), x)
	}
	return strings.TrimRight(b.String(), " ")
}

// nonEmpty returns the faults that are not empty.
func nonEmpty(faults ...string) []string {
	return slices.DeleteFunc(faults, func(s string) bool { return s == "" })
}

// unless returns a fault if a condition is false.
func unless(ok bool, format string, args ...any) string {
	if ok {
		return ""
	}
	return fmt.Sprintf(format, args...)
}
