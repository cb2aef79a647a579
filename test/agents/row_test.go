package agents

import (
	"fmt"
	"os"
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

// legend is also in docs/AGENTS.md.
const legend = `exit      the same exit codes as in a direct run
requests  as many main requests as in a direct run, and the same requests to other endpoints
prefix    each request's message list begins with the previous request's list, if this holds for the agent's own lists
bytes     without the inserted blocks, each request has the agent's own bytes
lesson    exactly one lesson block, from the first request on
error     exactly one block of the lesson that matches a tool's error, from this error on
loop      exactly one loop warning, from the second identical failure on, unchanged
side      side requests reach the model unchanged
session   all requests belong to one session, even in the resumed conversation
new       a new conversation with the same words is another session, with its own block
counts    precept's metrics count the sessions, matches, injections and loops; a retry adds nothing
429 500 cut   the retry has the same session and message list as the request that was refused, failed or was cut off
end       after a stream without an end marker the agent continues as in a direct run
restart   after a restart of precept, the resumed conversation is the same session with the same block
parallel  two simultaneous agents with the same words are two sessions, each with its own blocks
interrupt ^C during a reply ends the reply at the model; the resumed conversation is the same session with the same block
compact   after a summary replaces the history, the requests are as in a direct run, the summary request is unchanged, all requests belong to one session, and each has at most one block
refused   if the upstream refuses blocks, precept retries with the original bytes, and the agent sees no refusal
scan      precept rules scan finds the project's rules file with all its sections
kept      two sections of the rules file are measured: requests and exit codes are as in a direct run, and each request has the section that was not withheld
cutout    no request has the section that was withheld at random; all other bytes, and all side requests, are unchanged
-         cannot be provoked with this agent, or the agent reads no rules file
`

func TestLegendEqualsDocs(t *testing.T) {
	docs, err := os.ReadFile("../../docs/AGENTS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(strings.ReplaceAll(string(docs), "\n    ", "\n"), "\n\nexit ")
	if got, _, _ := strings.Cut("exit "+rest, "\n\n"); got+"\n" != legend {
		t.Errorf("docs/AGENTS.md: got the legend\n%s\nwant\n%s", got, legend)
	}
}

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
