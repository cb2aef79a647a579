package detect_test

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"precept/detect"
	"precept/internal/wire"
)

//go:embed testdata/loops.jsonl
var loopCases string

// Loops reports a loop at the step that completes the loop, and reports no loop in legitimate repetitions. want holds
// the indices of the steps with a loop.
func TestLoopsAreReportedAtTheCompletingStep(t *testing.T) {
	read := func(path string) storyStep { return call("read", jsonArgs("path", path), "line 1 of "+path) }
	edit := func(succeeds bool) storyStep {
		if succeeds {
			return call("edit", `{"path":"a.go","oldText":"x","newText":"y"}`, "Successfully replaced text in a.go.")
		}
		return call("edit", `{"path":"a.go","oldText":"x","newText":"y"}`, "Could not find the exact text in a.go.")
	}
	book := func(r string) storyStep { return call("book_room", `{"room":12,"day":"2025-03-01"}`, r) }
	taken := book("Error: room 12 is taken")
	status := func(code int) storyStep { return book(fmt.Sprintf(`{"status":%d,"message":"no room"}`, code)) }
	sameText := func(path string) storyStep { return call("read", jsonArgs("path", path), "the same line") }
	const (
		running = "Process running with session ID 7"
		refused = "The user doesn't want to proceed with this tool use. The tool use was rejected."
		done    = "all well\n\nCommand exited with code 0"
	)
	reads := func(n int) (story []storyStep) {
		for i := range n {
			story = append(story, read(fmt.Sprintf("f%d", i)))
		}
		return story
	}
	for _, c := range []struct {
		name  string
		story []storyStep
		want  []int
	}{
		{"fails again 64 steps later", append(append([]storyStep{fails("make")}, reads(63)...), fails("make")), []int{64}},
		{"fails again 65 steps later", append(append([]storyStep{fails("make")}, reads(64)...), fails("make")), nil},
		{"fails twice", []storyStep{fails("make"), fails("make")}, []int{1}},
		{
			"fails three times",
			[]storyStep{fails("make"), fails("make"), fails("make")},
			[]int{1},
		},
		{
			"fails nine times",
			rounds(9, fails("make")),
			[]int{1, 3},
		},
		{
			"fails twice, then five times after an edit",
			append(rounds(2, fails("make")), append([]storyStep{edit(true)}, rounds(5, fails("make"))...)...),
			[]int{1, 4, 6},
		},
		{
			"reads between the failures",
			rounds(4, fails("make"), read("a")),
			[]int{2, 6},
		},
		{"reads twelve times", rounds(12, read("a")), []int{4, 6}},
		{"two different failed commands", []storyStep{fails("make"), fails("make all")}, nil},
		{
			"several reads between two failures",
			[]storyStep{fails("make"), read("Makefile"), bash("ls -l", "Makefile"), fails("make")},
			[]int{3},
		},
		{
			"another failed call between the failures",
			[]storyStep{fails("make"), fails("make clean"), fails("make")},
			[]int{2},
		},
		{
			"a failed edit between the failures",
			[]storyStep{fails("make"), edit(false), fails("make")},
			[]int{2},
		},
		{"an edit between the failures", []storyStep{fails("make"), edit(true), fails("make")}, nil},
		{
			"a command with side effects between the failures",
			[]storyStep{fails("make"), bash("pip install x", "Successfully installed x"), fails("make")},
			nil,
		},
		{
			"a plan between the failures",
			[]storyStep{fails("make"), call("todowrite", `{"todos":[]}`, "ok"), fails("make")},
			[]int{2},
		},
		{"a user turn between the failures", []storyStep{fails("make"), userStep("try it now"), fails("make")}, nil},
		{
			"a user turn, then two failures",
			[]storyStep{fails("make"), userStep("hm"), fails("make"), fails("make")},
			[]int{3},
		},
		{
			"a harness message between the failures",
			[]storyStep{fails("make"), userStep("Continue from where you left off."), fails("make")},
			[]int{2},
		},
		{
			"two failing commands alternate",
			[]storyStep{fails("make"), fails("make -k"), fails("make"), fails("make -k")},
			[]int{2, 3},
		},
		{
			"A B A B A B, all succeed",
			[]storyStep{read("a"), read("b"), read("a"), read("b"), read("a"), read("b")},
			[]int{3},
		},
		{"A B C A B C, all succeed", rounds(2, read("a"), read("b"), read("c")), []int{5}},
		{
			"A B C A B D",
			append(
				rounds(1, read("a"), read("b"), read("c")),
				rounds(1, read("a"), read("b"), read("d"))...,
			),
			nil,
		},
		{
			"A B C A B C, of which B is an edit",
			append(
				rounds(1, read("a"), edit(true), read("c")),
				rounds(1, read("a"), edit(true), read("c"))...,
			),
			nil,
		},
		{"A B C D A B C D", rounds(2, read("a"), read("b"), read("c"), read("d")), nil},
		{"A and B in parallel, twice", rounds(2, read("a"), parallel(read("b"))), nil},
		{"a running job", rounds(7, call("get_job", `{"n":3}`, `{"status":"running"}`)), nil},
		{
			"a rollout in progress",
			rounds(7, call("get_deployment", `{"n":3}`, "The rollout is still in progress.")), nil,
		},
		{"a waiting state", rounds(7, bash("cat state", "waiting")), nil},
		{"a building deployment", rounds(7, call("get_deployment", `{"n":3}`, `{"state":"BUILDING","url":"x.app"}`)), nil},
		{"an upload", rounds(7, bash("cat state", "Uploading...")), nil},
		{"a worker that is compiling", rounds(7, call("get_worker", `{"n":3}`, "The worker is compiling the cart.")), nil},
		{"a missing worker", rounds(5, call("get_worker", `{"n":3}`, `{"state":"missing"}`)), []int{4}},
		{"a list of things", rounds(5, call("get_list", `{"n":3}`, "Things for pricing a cart")), []int{4}},
		{
			"a finished job", rounds(5, call("get_job", `{"n":3}`, `{"status":"done"}`)),
			[]int{4},
		},
		{
			"a long report that mentions waiting",
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
			[]storyStep{
				call("next_page", `{}`, "page 2"), call("next_page", `{}`, "page 3"),
				call("next_page", `{}`, "page 4"),
			},
			nil,
		},
		{"white space outside of quotes", []storyStep{fails("make  test"), fails("make test")}, []int{1}},
		{"white space inside quotes", []storyStep{fails("grep 'a  b' c"), fails("grep 'a b' c")}, nil},
		{
			"failures that differ in a port",
			[]storyStep{
				bash("./t", "error: localhost:40123 is closed\n\nCommand exited with code 2"),
				read("a"),
				bash("./t", "error: localhost:51877 is closed\n\nCommand exited with code 2"),
			},
			[]int{2},
		},
		{
			"a failure in German",
			rounds(
				2,
				call("stadt_suchen", `{"name":"Ulm"}`, "Fehler: Die Stadt wurde nicht gefunden."),
			),
			[]int{1},
		},
		{"three identical reads", []storyStep{read("a"), read("a"), read("a")}, nil},
		{
			"six identical reads",
			[]storyStep{read("a"), read("a"), read("a"), read("a"), read("a"), read("a")},
			[]int{4},
		},
		{
			"a command without output",
			rounds(3, bash("sh check.sh", "(no output)")),
			[]int{1},
		},
		{
			"identical reads of a file between changed reads of a log",
			[]storyStep{
				read("a"), bash("tail -1 x.log", "one"), read("a"), bash("tail -1 x.log", "two"), bash("tail -1 x.log", "three"),
				read("a"), read("a"), read("a"), read("a"),
			},
			nil,
		},
		{"a command without output, then an unchanged file", rounds(3, bash("kill 7", "(no output)"), bash("cat a.pid", "7")), []int{2}},
		{
			"a build without output",
			rounds(3, bash("make build", "(no output)")),
			[]int{1},
		},
		{
			"a lint without output after an edit",
			[]storyStep{
				bash("ruff check .", "(no output)"),
				call("edit", jsonArgs("file_path", "a.py"), "The file was updated."),
				bash("ruff check .", "(no output)"),
			},
			nil,
		},
		{
			"a lint without output with exit code 0",
			[]storyStep{
				bash("ruff check .", "<shellId: 1 completed with exit code 0>"),
				bash("ruff check .", "<shellId: 2 completed with exit code 0>"),
			},
			nil,
		},
		{
			"a command that succeeds twice",
			[]storyStep{
				bash("sh b.sh", "ok\n<shellId: 1 completed with exit code 0>"),
				bash("sh b.sh", "ok\n<shellId: 2 completed with exit code 0>"),
			},
			nil,
		},
		{
			"a test that passes again",
			[]storyStep{
				bash("go test ./...", "ok  \tshop\t0.01s"),
				bash("go test ./...", "ok  \tshop\t0.07s"),
			},
			nil,
		},
		{
			"results that differ",
			[]storyStep{bash("sh s.sh", "3 jobs left"), bash("sh s.sh", "2 jobs left")},
			nil,
		},
		{
			"a command that sleeps",
			[]storyStep{
				bash("sleep 5 && cat state", "waiting"), bash("sleep 5 && cat state", "waiting"),
				bash("sleep 5 && cat state", "waiting"),
			},
			nil,
		},
		{
			"a command in the background",
			[]storyStep{
				bash("./serve", "Command running in background with ID: 1"),
				bash("./serve", "Command running in background with ID: 2"),
			},
			nil,
		},
		{
			"refused twice",
			[]storyStep{
				bash("rm x", "The user rejected permission to use this specific tool call."),
				bash("rm x", "The user rejected permission to use this specific tool call."),
			},
			nil,
		},
		{"two identical calls in one answer", []storyStep{fails("make"), parallel(fails("make"))}, nil},
		{
			"a failing and a succeeding call in parallel, twice",
			[]storyStep{fails("make"), parallel(read("a")), fails("make"), parallel(read("a"))},
			[]int{2},
		},
		{
			"the same exit code with another output",
			[]storyStep{
				bash("t", "at 1: x\n\nCommand exited with code 3"),
				bash("t", "(no output)\n\nCommand exited with code 3"),
			},
			nil,
		},
		{
			"another failure with the same exit code after a read",
			[]storyStep{
				bash("t", "at 1: x\n\nCommand exited with code 3"), read("a"),
				bash("t", "at 7: y\n\nCommand exited with code 3"),
			},
			nil,
		},
		{"three reads in each of two answers", rounds(2, read("a"), parallel(read("a")), parallel(read("a"))), nil},
		{"still running between the failures", []storyStep{fails("make"), bash("make", running), fails("make")}, []int{2}},
		{"refused between the failures", []storyStep{fails("make"), bash("make", refused), fails("make")}, []int{2}},
		{"still running six times", rounds(6, bash("make", running)), nil},
		{"refused six times", rounds(6, bash("make", refused)), nil},
		{"A, edited, A, edited", rounds(2, read("a"), edit(true)), nil},
		{"A, planned, A, planned", rounds(2, read("a"), call("todowrite", `{"todos":[]}`, "ok")), nil},
		{"A, still running, A, still running", rounds(2, read("a"), bash("make", running)), nil},
		{"A, refused, A, refused", rounds(2, read("a"), bash("make", refused)), nil},
		{"B A B", []storyStep{read("b"), read("a"), read("b")}, nil},
		{"A B C B with identical results", []storyStep{sameText("a"), sameText("b"), sameText("c"), sameText("b")}, nil},
		{
			"A B A B, of which the second A has another result",
			[]storyStep{read("a"), read("b"), call("read", jsonArgs("path", "a"), "line 2 of a"), read("b")},
			nil,
		},
		{"six waits", rounds(6, call("wait", `{"seconds":3}`, "waited")), nil},
		{"six plans", rounds(6, call("todowrite", `{"todos":[]}`, "ok")), nil},
		{
			"a command that formats files and tests between the failures",
			[]storyStep{fails("npm test"), bash("prettier --write . && npm test", done), fails("npm test")},
			nil,
		},
		{
			"a command that builds and tests between the failures",
			[]storyStep{fails("go test"), bash("go build ./... && go test ./...", done), fails("go test")},
			nil,
		},
		{"status 404, then a user turn", []storyStep{status(404), userStep("and now?"), status(404)}, []int{2}},
		{"status 408, then a user turn", []storyStep{status(408), userStep("and now?"), status(408)}, nil},
		{"status 425, then a user turn", []storyStep{status(425), userStep("and now?"), status(425)}, nil},
		{"status 429, then a user turn", []storyStep{status(429), userStep("and now?"), status(429)}, nil},
		{"status 500, then a user turn", []storyStep{status(500), userStep("and now?"), status(500)}, nil},
		{"works, then fails", []storyStep{bash("t", "ok\n<exit code 0>"), fails("t")}, nil},
		{"fails, works, fails", []storyStep{fails("t"), bash("t", "all well"), fails("t")}, nil},
		{
			"an API error, then a user turn that reports no change",
			[]storyStep{taken, userStep("yes, please go on with it"), taken},
			[]int{2},
		},
		{
			"an API error, then a user turn that reports a change",
			[]storyStep{taken, userStep("I've updated the booking, try again"), taken},
			nil,
		},
		{
			"a transient failure, then a user turn",
			[]storyStep{book("Error: request timed out"), userStep("hm"), book("Error: request timed out")},
			nil,
		},
		{
			"a change by the API between its errors",
			[]storyStep{taken, call("cancel_booking", `{"room":12}`, `{"status":"cancelled"}`), taken},
			nil,
		},
		{
			"a lookup by the API between its errors",
			[]storyStep{taken, call("get_rooms", `{}`, `[12]`), taken},
			[]int{2},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, d := range []wire.Dialect{wire.Chat, wire.Messages, wire.Responses} {
				if got := replay(t, d, c.story); !slices.Equal(got, c.want) {
					t.Errorf("%s: loops at steps %v, want %v", d, got, c.want)
				}
			}
		})
	}
}

// Again is true only for the second warning of the same loop. It is false for a loop after a change or a user turn, and
// for a loop of other calls.
func TestAgainMarksTheSecondWarningOfALoop(t *testing.T) {
	taken := call("book_room", `{"room":12}`, "Error: room 12 is taken")
	edit := call("edit", `{"path":"a.go","oldText":"x","newText":"y"}`, "Successfully replaced text in a.go.")
	var guesses []storyStep
	for i := range 10 {
		path := fmt.Sprintf("/d%d/a.csv", i)
		guesses = append(guesses, call("read_text_file", jsonArgs("path", path), "Error: ENOENT: no such file or directory, open '"+path+"'"))
	}
	for name, c := range map[string]struct {
		story []storyStep
		want  []bool
	}{
		"nine failures":                {rounds(9, fails("make")), []bool{false, true}},
		"twelve reads":                 {rounds(12, call("read", jsonArgs("path", "a"), "line 1")), []bool{false, true}},
		"an edit between two loops":    {append(append(rounds(3, fails("make")), edit), rounds(2, fails("make"))...), []bool{false, false}},
		"a user turn between failures": {[]storyStep{taken, taken, userStep("yes, please go on with it"), taken}, []bool{false, false}},
		"ten guessed paths":            {guesses, []bool{false, false}},
		"two failures":                 {rounds(2, fails("make")), []bool{false}},
	} {
		warned, got := map[string]bool{}, []bool(nil)
		for n := range c.story {
			for _, l := range new(detect.Results).Loops(parse(t, wire.Chat, obj{"messages": chat(c.story[:n+1])}), warned, nil) {
				warned[l.CallID] = true
				got = append(got, l.Again)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got Again %v, want %v", name, got, c.want)
		}
	}
}

// testdata/loops.jsonl holds labelled sessions. Loops and LoopsSince find a loop only in sessions with the label
// "loop".
func TestLabelledLoopsAndRepetitions(t *testing.T) {
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
		var story []storyStep
		for _, s := range c.Steps {
			if s.Tool == "user" {
				story = append(story, userStep(s.Result))
				continue
			}
			story = append(story, call(s.Tool, string(s.Args), s.Result))
		}
		want := c.Label == "loop"
		if got := replay(t, wire.Chat, story); (len(got) > 0) != want {
			t.Errorf("%s, requests with history: loops at steps %v, want a loop = %v", c.Name, got, want)
		}
		if got := replayFromCheckpoints(t, story); (len(got) > 0) != want {
			t.Errorf("%s, requests without history: loops at steps %v, want a loop = %v", c.Name, got, want)
		}
	}
}
