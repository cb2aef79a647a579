package detect_test

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"precept/internal/wire"
)

//go:embed testdata/loops.jsonl
var loopCases string

func TestLoopWarningsComeAtTheRightCall(t *testing.T) {
	read := func(p string) drawnStep { return call("read", jsonArgs("path", p), "line 1 of "+p) }
	edit := func(ok bool) drawnStep {
		if ok {
			return call("edit", `{"path":"a.go","oldText":"x","newText":"y"}`, "Successfully replaced text in a.go.")
		}
		return call("edit", `{"path":"a.go","oldText":"x","newText":"y"}`, "Could not find the exact text in a.go.")
	}
	book := func(r string) drawnStep { return call("book_room", `{"room":12,"day":"2025-03-01"}`, r) }
	taken := book("Error: room 12 is taken")
	status := func(code int) drawnStep { return book(fmt.Sprintf(`{"status":%d,"message":"no room"}`, code)) }
	alike := func(p string) drawnStep { return call("read", jsonArgs("path", p), "the same line") }
	const (
		goesOn  = "Process running with session ID 7"
		refused = "The user doesn't want to proceed with this tool use. The tool use was rejected."
		done    = "all well\n\nCommand exited with code 0"
	)
	for _, c := range []struct {
		name  string
		story []drawnStep
		want  []int
	}{
		{"fails twice", []drawnStep{fails("make"), fails("make")}, []int{1}},
		{
			"fails three times: one warning",
			[]drawnStep{fails("make"), fails("make"), fails("make")},
			[]int{1},
		},
		{
			"fails for ever: a second warning two failures later, and no third",
			rounds(9, fails("make")),
			[]int{1, 3},
		},
		{
			"fails, is fixed, fails for ever",
			append(rounds(2, fails("make")), append([]drawnStep{edit(true)}, rounds(5, fails("make"))...)...),
			[]int{1, 4, 6},
		},
		{
			"looks between the failures",
			rounds(4, fails("make"), read("a")),
			[]int{2, 6},
		},
		{"reads for ever", rounds(12, read("a")), []int{4, 6}},
		{"once is not a loop", []drawnStep{fails("make"), fails("make all")}, nil},
		{
			"reading between is not an excuse",
			[]drawnStep{fails("make"), read("Makefile"), bash("ls -l", "Makefile"), fails("make")},
			[]int{3},
		},
		{
			"a failed call between is not an excuse",
			[]drawnStep{fails("make"), fails("make clean"), fails("make")},
			[]int{2},
		},
		{
			"a failed edit between is not an excuse",
			[]drawnStep{fails("make"), edit(false), fails("make")},
			[]int{2},
		},
		{"an edit between is a reason", []drawnStep{fails("make"), edit(true), fails("make")}, nil},
		{
			"a command that may change things is a reason",
			[]drawnStep{fails("make"), bash("pip install x", "Successfully installed x"), fails("make")},
			nil,
		},
		{
			"a plan between is not an excuse",
			[]drawnStep{fails("make"), call("todowrite", `{"todos":[]}`, "ok"), fails("make")},
			[]int{2},
		},
		{"a person between", []drawnStep{fails("make"), userStep("try it now"), fails("make")}, nil},
		{
			"a person between, then again",
			[]drawnStep{fails("make"), userStep("hm"), fails("make"), fails("make")},
			[]int{3},
		},
		{
			"an interrupt of the harness is not a person",
			[]drawnStep{fails("make"), userStep("Continue from where you left off."), fails("make")},
			[]int{2},
		},
		{
			"A B A B",
			[]drawnStep{fails("make"), fails("make -k"), fails("make"), fails("make -k")},
			[]int{2, 3},
		},
		{
			"A B A B, all well",
			[]drawnStep{read("a"), read("b"), read("a"), read("b"), read("a"), read("b")},
			[]int{3},
		},
		{"A B C A B C, all well", rounds(2, read("a"), read("b"), read("c")), []int{5}},
		{
			"A B C and another",
			append(
				rounds(1, read("a"), read("b"), read("c")),
				rounds(1, read("a"), read("b"), read("d"))...,
			),
			nil,
		},
		{
			"A B C A B C with a change",
			append(
				rounds(1, read("a"), edit(true), read("c")),
				rounds(1, read("a"), edit(true), read("c"))...,
			),
			nil,
		},
		{"A B C D A B C D", rounds(2, read("a"), read("b"), read("c"), read("d")), nil},
		{"A A A A in pairs", rounds(2, read("a"), with(read("b"))), nil},
		{"a job that goes on", rounds(7, call("get_job", `{"n":3}`, `{"status":"running"}`)), nil},
		{
			"a deployment that goes on",
			rounds(7, call("get_deployment", `{"n":3}`, "The rollout is still in progress.")), nil,
		},
		{"a state that goes on", rounds(7, bash("cat state", "waiting")), nil},
		{
			"a job that is done", rounds(5, call("get_job", `{"n":3}`, `{"status":"done"}`)),
			[]int{4},
		},
		{
			"a report that speaks of waiting",
			rounds(
				5,
				call(
					"get_report", `{"n":3}`, strings.Repeat("Nobody is waiting for the rows. ", 9),
				),
			),
			[]int{4},
		},
		{
			"pages",
			[]drawnStep{
				call("next_page", `{}`, "page 2"), call("next_page", `{}`, "page 3"),
				call("next_page", `{}`, "page 4"),
			},
			nil,
		},
		{"blanks in a command", []drawnStep{fails("make  test"), fails("make test")}, []int{1}},
		{"blanks that may matter", []drawnStep{fails("grep 'a  b' c"), fails("grep 'a b' c")}, nil},
		{
			"another port each time",
			[]drawnStep{
				bash("./t", "error: localhost:40123 is closed\n\nCommand exited with code 2"),
				read("a"),
				bash("./t", "error: localhost:51877 is closed\n\nCommand exited with code 2"),
			},
			[]int{2},
		},
		{
			"in another language",
			rounds(
				2,
				call("stadt_suchen", `{"name":"Ulm"}`, "Fehler: Die Stadt wurde nicht gefunden."),
			),
			[]int{1},
		},
		{"reading twice is harmless", []drawnStep{read("a"), read("a"), read("a")}, nil},
		{
			"reading for ever is not",
			[]drawnStep{read("a"), read("a"), read("a"), read("a"), read("a"), read("a")},
			[]int{4},
		},
		{
			"a silent command",
			[]drawnStep{bash("sh check.sh", "(no output)"), bash("sh check.sh", "(no output)")},
			[]int{1},
		},
		{
			"a silent build",
			[]drawnStep{bash("make build", "(no output)"), bash("make build", "(no output)")},
			[]int{1},
		},
		{
			"a silent lint after an edit",
			[]drawnStep{
				bash("ruff check .", "(no output)"),
				call("edit", jsonArgs("file_path", "a.py"), "The file was updated."),
				bash("ruff check .", "(no output)"),
			},
			nil,
		},
		{
			"a silent lint that tells its code",
			[]drawnStep{
				bash("ruff check .", "<shellId: 1 completed with exit code 0>"),
				bash("ruff check .", "<shellId: 2 completed with exit code 0>"),
			},
			nil,
		},
		{
			"a command that went well",
			[]drawnStep{
				bash("sh b.sh", "ok\n<shellId: 1 completed with exit code 0>"),
				bash("sh b.sh", "ok\n<shellId: 2 completed with exit code 0>"),
			},
			nil,
		},
		{
			"a test that passes again",
			[]drawnStep{
				bash("go test ./...", "ok  \tshop\t0.01s"),
				bash("go test ./...", "ok  \tshop\t0.07s"),
			},
			nil,
		},
		{
			"another result",
			[]drawnStep{bash("sh s.sh", "3 jobs left"), bash("sh s.sh", "2 jobs left")},
			nil,
		},
		{
			"polling",
			[]drawnStep{
				bash("sleep 5 && cat state", "waiting"), bash("sleep 5 && cat state", "waiting"),
				bash("sleep 5 && cat state", "waiting"),
			},
			nil,
		},
		{
			"pending",
			[]drawnStep{
				bash("./serve", "Command running in background with ID: 1"),
				bash("./serve", "Command running in background with ID: 2"),
			},
			nil,
		},
		{
			"refused twice",
			[]drawnStep{
				bash("rm x", "The user rejected permission to use this specific tool call."),
				bash("rm x", "The user rejected permission to use this specific tool call."),
			},
			nil,
		},
		{"twice in one answer", []drawnStep{fails("make"), with(fails("make"))}, nil},
		{
			"parallel: the failing one only",
			[]drawnStep{fails("make"), with(read("a")), fails("make"), with(read("a"))},
			[]int{2},
		},
		{
			"the same exit code right after, another output",
			[]drawnStep{
				bash("t", "at 1: x\n\nCommand exited with code 3"),
				bash("t", "(no output)\n\nCommand exited with code 3"),
			},
			nil,
		},
		{
			"another failure later",
			[]drawnStep{
				bash("t", "at 1: x\n\nCommand exited with code 3"), read("a"),
				bash("t", "at 7: y\n\nCommand exited with code 3"),
			},
			nil,
		},
		{"as often, in two answers", rounds(2, read("a"), with(read("a")), with(read("a"))), nil},
		{"goes on between", []drawnStep{fails("make"), bash("make", goesOn), fails("make")}, []int{2}},
		{"refused between", []drawnStep{fails("make"), bash("make", refused), fails("make")}, []int{2}},
		{"goes on, and on", rounds(6, bash("make", goesOn)), nil},
		{"refused, and refused", rounds(6, bash("make", refused)), nil},
		{"A, edited, A, edited", rounds(2, read("a"), edit(true)), nil},
		{"A, planned, A, planned", rounds(2, read("a"), call("todowrite", `{"todos":[]}`, "ok")), nil},
		{"A, goes on, A, goes on", rounds(2, read("a"), bash("make", goesOn)), nil},
		{"A, refused, A, refused", rounds(2, read("a"), bash("make", refused)), nil},
		{"B A B", []drawnStep{read("b"), read("a"), read("b")}, nil},
		{"A B C B, alike to read", []drawnStep{alike("a"), alike("b"), alike("c"), alike("b")}, nil},
		{
			"A B A B, of which A is another one",
			[]drawnStep{read("a"), read("b"), call("read", jsonArgs("path", "a"), "line 2 of a"), read("b")},
			nil,
		},
		{"waits", rounds(6, call("wait", `{"seconds":3}`, "waited")), nil},
		{"plans", rounds(6, call("todowrite", `{"todos":[]}`, "ok")), nil},
		{
			"a test that writes fixes is a reason",
			[]drawnStep{fails("npm test"), bash("prettier --write . && npm test", done), fails("npm test")},
			nil,
		},
		{
			"a build beside a test is a reason",
			[]drawnStep{fails("go test"), bash("go build ./... && go test ./...", done), fails("go test")},
			nil,
		},
		{"no such room, a person between", []drawnStep{status(404), userStep("and now?"), status(404)}, []int{2}},
		{"too long, a person between", []drawnStep{status(408), userStep("and now?"), status(408)}, nil},
		{"too early, a person between", []drawnStep{status(425), userStep("and now?"), status(425)}, nil},
		{"too many, a person between", []drawnStep{status(429), userStep("and now?"), status(429)}, nil},
		{"it is down, a person between", []drawnStep{status(500), userStep("and now?"), status(500)}, nil},
		{"works, then fails", []drawnStep{bash("t", "ok\n<exit code 0>"), fails("t")}, nil},
		{"fails, works, fails", []drawnStep{fails("t"), bash("t", "all well"), fails("t")}, nil},
		{
			"an API's rule stands, whatever was said",
			[]drawnStep{taken, userStep("yes, please go on with it"), taken},
			[]int{2},
		},
		{
			"the person says it was repaired",
			[]drawnStep{taken, userStep("I've updated the booking, try again"), taken},
			nil,
		},
		{
			"a failure that passes",
			[]drawnStep{book("Error: request timed out"), userStep("hm"), book("Error: request timed out")},
			nil,
		},
		{
			"an API's change between",
			[]drawnStep{taken, call("cancel_booking", `{"room":12}`, `{"status":"cancelled"}`), taken},
			nil,
		},
		{
			"an API's look-up between",
			[]drawnStep{taken, call("get_rooms", `{}`, `[12]`), taken},
			[]int{2},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, d := range []wire.Dialect{wire.Chat, wire.Messages, wire.Responses} {
				if got := play(t, d, c.story); !slices.Equal(got, c.want) {
					t.Errorf("%s: warned of %v, want %v", d, got, c.want)
				}
			}
		})
	}
}

// Each loop causes a warning, and no legitimate repetition does, whether the request holds the history or the
// provider keeps the history.
func TestLoopsAndLegitimateRepetitions(t *testing.T) {
	for line := range strings.Lines(loopCases) {
		var c struct {
			Label, Name string
			Steps       []struct {
				Tool, Result string
				Args         json.RawMessage
			}
		}
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		var story []drawnStep
		for _, s := range c.Steps {
			if s.Tool == "user" {
				story = append(story, userStep(s.Result))
				continue
			}
			story = append(story, call(s.Tool, string(s.Args), s.Result))
		}
		want := c.Label == "loop"
		if got := play(t, wire.Chat, story); (len(got) > 0) != want {
			t.Errorf("%s with its history: warnings at %v, want a warning: %v", c.Name, got, want)
		}
		if got := playSince(t, story); (len(got) > 0) != want {
			t.Errorf("%s without its history: warnings at %v, want a warning: %v", c.Name, got, want)
		}
	}
}
