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

// The field want lists the steps at which Loops must report a loop, by index. In the names of cases, A, B, C and D
// stand for different calls.
func TestLoopsReportsRepeatedSteps(t *testing.T) {
	read := func(path string) testStep { return call("read", jsonArgs("path", path), "line 1 of "+path) }
	edit := call("edit", `{"path":"a.go","oldText":"x","newText":"y"}`, "Successfully replaced text in a.go.")
	failedEdit := call("edit", `{"path":"a.go","oldText":"x","newText":"y"}`, "Could not find the exact text in a.go.")
	bookRoom := func(result string) testStep {
		return call("book_room", `{"room":12,"day":"2025-03-01"}`, result)
	}
	roomTaken := bookRoom("Error: room 12 is taken")
	bookingStatus := func(code int) testStep { return bookRoom(fmt.Sprintf(`{"status":%d,"message":"no room"}`, code)) }
	readSameText := func(path string) testStep { return call("read", jsonArgs("path", path), "the same line") }
	const (
		running = "Process running with session ID 7"
		refused = "The user doesn't want to proceed with this tool use. The tool use was rejected."
		done    = "all well\n\nCommand exited with code 0"
	)
	distinctReads := func(n int) (steps []testStep) {
		for i := range n {
			steps = append(steps, read(fmt.Sprintf("f%d", i)))
		}
		return steps
	}
	for _, tc := range []struct {
		name  string
		steps []testStep
		want  []int
	}{
		{"fails again 64 steps later", append(append([]testStep{failedBash("make")}, distinctReads(63)...), failedBash("make")), []int{64}},
		{"fails again 65 steps later", append(append([]testStep{failedBash("make")}, distinctReads(64)...), failedBash("make")), nil},
		{"fails twice", []testStep{failedBash("make"), failedBash("make")}, []int{1}},
		{
			"fails three times",
			[]testStep{failedBash("make"), failedBash("make"), failedBash("make")},
			[]int{1},
		},
		{
			"fails nine times",
			repeatSteps(9, failedBash("make")),
			[]int{1, 3},
		},
		{
			"fails twice, then five times after an edit",
			append(repeatSteps(2, failedBash("make")), append([]testStep{edit}, repeatSteps(5, failedBash("make"))...)...),
			[]int{1, 4, 6},
		},
		{
			"reads between the failures",
			repeatSteps(4, failedBash("make"), read("a")),
			[]int{2, 6},
		},
		{"reads twelve times", repeatSteps(12, read("a")), []int{4, 6}},
		{"two different failed commands", []testStep{failedBash("make"), failedBash("make all")}, nil},
		{
			"several reads between two failures",
			[]testStep{failedBash("make"), read("Makefile"), bash("ls -l", "Makefile"), failedBash("make")},
			[]int{3},
		},
		{
			"a different failed call between the failures",
			[]testStep{failedBash("make"), failedBash("make clean"), failedBash("make")},
			[]int{2},
		},
		{
			"a failed edit between the failures",
			[]testStep{failedBash("make"), failedEdit, failedBash("make")},
			[]int{2},
		},
		{"an edit between the failures", []testStep{failedBash("make"), edit, failedBash("make")}, nil},
		{
			"a command with side effects between the failures",
			[]testStep{failedBash("make"), bash("pip install x", "Successfully installed x"), failedBash("make")},
			nil,
		},
		{
			"a plan between the failures",
			[]testStep{failedBash("make"), call("todowrite", `{"todos":[]}`, "ok"), failedBash("make")},
			[]int{2},
		},
		{"a user turn between the failures", []testStep{failedBash("make"), userTurn("try it now"), failedBash("make")}, nil},
		{
			"a user turn, then two failures",
			[]testStep{failedBash("make"), userTurn("hm"), failedBash("make"), failedBash("make")},
			[]int{3},
		},
		{
			"a harness message between the failures",
			[]testStep{failedBash("make"), userTurn("Continue from where you left off."), failedBash("make")},
			[]int{2},
		},
		{
			"two failing commands alternate",
			[]testStep{failedBash("make"), failedBash("make -k"), failedBash("make"), failedBash("make -k")},
			[]int{2, 3},
		},
		{
			"A B A B A B, all succeed",
			[]testStep{read("a"), read("b"), read("a"), read("b"), read("a"), read("b")},
			[]int{3},
		},
		{"A B C A B C, all succeed", repeatSteps(2, read("a"), read("b"), read("c")), []int{5}},
		{
			"A B C A B D",
			append(
				repeatSteps(1, read("a"), read("b"), read("c")),
				repeatSteps(1, read("a"), read("b"), read("d"))...,
			),
			nil,
		},
		{
			"A B C A B C, B is an edit",
			append(
				repeatSteps(1, read("a"), edit, read("c")),
				repeatSteps(1, read("a"), edit, read("c"))...,
			),
			nil,
		},
		{"A B C D A B C D", repeatSteps(2, read("a"), read("b"), read("c"), read("d")), nil},
		{"A and B in parallel, twice", repeatSteps(2, read("a"), parallel(read("b"))), nil},
		{"a running job", repeatSteps(7, call("get_job", `{"n":3}`, `{"status":"running"}`)), nil},
		{
			"a rollout in progress",
			repeatSteps(7, call("get_deployment", `{"n":3}`, "The rollout is still in progress.")), nil,
		},
		{"a waiting state", repeatSteps(7, bash("cat state", "waiting")), nil},
		{"a building deployment", repeatSteps(7, call("get_deployment", `{"n":3}`, `{"state":"BUILDING","url":"x.app"}`)), nil},
		{"an upload", repeatSteps(7, bash("cat state", "Uploading...")), nil},
		{"a worker that is compiling", repeatSteps(7, call("get_worker", `{"n":3}`, "The worker is compiling the cart.")), nil},
		{"a worker in no waiting state", repeatSteps(5, call("get_worker", `{"n":3}`, `{"state":"missing"}`)), []int{4}},
		{"words that end in -ing, but name no activity", repeatSteps(5, call("get_list", `{"n":3}`, "Things for pricing a cart")), []int{4}},
		{
			"a finished job", repeatSteps(5, call("get_job", `{"n":3}`, `{"status":"done"}`)),
			[]int{4},
		},
		{
			"a long report that mentions waiting",
			repeatSteps(
				5,
				call(
					"get_report", `{"n":3}`, strings.Repeat("Nobody is waiting for the rows. ", 9),
				),
			),
			[]int{4},
		},
		{
			"three different pages",
			[]testStep{
				call("next_page", `{}`, "page 2"), call("next_page", `{}`, "page 3"),
				call("next_page", `{}`, "page 4"),
			},
			nil,
		},
		{"white space outside quotes", []testStep{failedBash("make  test"), failedBash("make test")}, []int{1}},
		{"white space inside quotes", []testStep{failedBash("grep 'a  b' c"), failedBash("grep 'a b' c")}, nil},
		{
			"failures that differ in a port",
			[]testStep{
				bash("./t", "error: localhost:40123 is closed\n\nCommand exited with code 2"),
				read("a"),
				bash("./t", "error: localhost:51877 is closed\n\nCommand exited with code 2"),
			},
			[]int{2},
		},
		{
			"a failure in German",
			repeatSteps(
				2,
				call("stadt_suchen", `{"name":"Ulm"}`, "Fehler: Die Stadt wurde nicht gefunden."),
			),
			[]int{1},
		},
		{"three identical reads", []testStep{read("a"), read("a"), read("a")}, nil},
		{
			"six identical reads",
			[]testStep{read("a"), read("a"), read("a"), read("a"), read("a"), read("a")},
			[]int{4},
		},
		{
			"a command without output",
			repeatSteps(3, bash("sh check.sh", "(no output)")),
			[]int{1},
		},
		{
			"identical file reads between changed log reads",
			[]testStep{
				read("a"), bash("tail -1 x.log", "one"), read("a"), bash("tail -1 x.log", "two"), bash("tail -1 x.log", "three"),
				read("a"), read("a"), read("a"), read("a"),
			},
			nil,
		},
		{"a command without output, then an unchanged file", repeatSteps(3, bash("kill 7", "(no output)"), bash("cat a.pid", "7")), []int{2}},
		{
			"a build without output",
			repeatSteps(3, bash("make build", "(no output)")),
			[]int{1},
		},
		{
			"a lint without output after an edit",
			[]testStep{
				bash("ruff check .", "(no output)"),
				call("edit", jsonArgs("file_path", "a.py"), "The file was updated."),
				bash("ruff check .", "(no output)"),
			},
			nil,
		},
		{
			"a lint without output with exit code 0",
			[]testStep{
				bash("ruff check .", "<shellId: 1 completed with exit code 0>"),
				bash("ruff check .", "<shellId: 2 completed with exit code 0>"),
			},
			nil,
		},
		{
			"a command that succeeds twice",
			[]testStep{
				bash("sh b.sh", "ok\n<shellId: 1 completed with exit code 0>"),
				bash("sh b.sh", "ok\n<shellId: 2 completed with exit code 0>"),
			},
			nil,
		},
		{
			"a test that passes again",
			[]testStep{
				bash("go test ./...", "ok  \tshop\t0.01s"),
				bash("go test ./...", "ok  \tshop\t0.07s"),
			},
			nil,
		},
		{
			"results that differ",
			[]testStep{bash("sh s.sh", "3 jobs left"), bash("sh s.sh", "2 jobs left")},
			nil,
		},
		{
			"a command that sleeps",
			[]testStep{
				bash("sleep 5 && cat state", "waiting"), bash("sleep 5 && cat state", "waiting"),
				bash("sleep 5 && cat state", "waiting"),
			},
			nil,
		},
		{
			"a command in the background",
			[]testStep{
				bash("./serve", "Command running in background with ID: 1"),
				bash("./serve", "Command running in background with ID: 2"),
			},
			nil,
		},
		{
			"refused twice",
			[]testStep{
				bash("rm x", "The user rejected permission to use this specific tool call."),
				bash("rm x", "The user rejected permission to use this specific tool call."),
			},
			nil,
		},
		{"two identical calls in one answer", []testStep{failedBash("make"), parallel(failedBash("make"))}, nil},
		{
			"a failing and a succeeding call in parallel, twice",
			[]testStep{failedBash("make"), parallel(read("a")), failedBash("make"), parallel(read("a"))},
			[]int{2},
		},
		{
			"the same exit code with a different output",
			[]testStep{
				bash("t", "at 1: x\n\nCommand exited with code 3"),
				bash("t", "(no output)\n\nCommand exited with code 3"),
			},
			nil,
		},
		{
			"a different failure with the same exit code after a read",
			[]testStep{
				bash("t", "at 1: x\n\nCommand exited with code 3"), read("a"),
				bash("t", "at 7: y\n\nCommand exited with code 3"),
			},
			nil,
		},
		{"two answers with three reads each", repeatSteps(2, read("a"), parallel(read("a")), parallel(read("a"))), nil},
		{"still running between the failures", []testStep{failedBash("make"), bash("make", running), failedBash("make")}, []int{2}},
		{"refused between the failures", []testStep{failedBash("make"), bash("make", refused), failedBash("make")}, []int{2}},
		{"still running six times", repeatSteps(6, bash("make", running)), nil},
		{"refused six times", repeatSteps(6, bash("make", refused)), nil},
		{"A, edited, A, edited", repeatSteps(2, read("a"), edit), nil},
		{"A, planned, A, planned", repeatSteps(2, read("a"), call("todowrite", `{"todos":[]}`, "ok")), nil},
		{"A, still running, A, still running", repeatSteps(2, read("a"), bash("make", running)), nil},
		{"A, refused, A, refused", repeatSteps(2, read("a"), bash("make", refused)), nil},
		{"B A B", []testStep{read("b"), read("a"), read("b")}, nil},
		{"A B C B with identical results", []testStep{readSameText("a"), readSameText("b"), readSameText("c"), readSameText("b")}, nil},
		{
			"A B A B, the second A has a different result",
			[]testStep{read("a"), read("b"), call("read", jsonArgs("path", "a"), "line 2 of a"), read("b")},
			nil,
		},
		{"six waits", repeatSteps(6, call("wait", `{"seconds":3}`, "waited")), nil},
		{"six plans", repeatSteps(6, call("todowrite", `{"todos":[]}`, "ok")), nil},
		{
			"a command that formats files and tests between the failures",
			[]testStep{failedBash("npm test"), bash("prettier --write . && npm test", done), failedBash("npm test")},
			nil,
		},
		{
			"a command that builds and tests between the failures",
			[]testStep{failedBash("go test"), bash("go build ./... && go test ./...", done), failedBash("go test")},
			nil,
		},
		{"status 404, then a user turn", []testStep{bookingStatus(404), userTurn("and now?"), bookingStatus(404)}, []int{2}},
		{"status 408, then a user turn", []testStep{bookingStatus(408), userTurn("and now?"), bookingStatus(408)}, nil},
		{"status 425, then a user turn", []testStep{bookingStatus(425), userTurn("and now?"), bookingStatus(425)}, nil},
		{"status 429, then a user turn", []testStep{bookingStatus(429), userTurn("and now?"), bookingStatus(429)}, nil},
		{"status 500, then a user turn", []testStep{bookingStatus(500), userTurn("and now?"), bookingStatus(500)}, nil},
		{"a success, then a failure", []testStep{bash("t", "ok\n<exit code 0>"), failedBash("t")}, nil},
		{"a success between two failures", []testStep{failedBash("t"), bash("t", "all well"), failedBash("t")}, nil},
		{
			"an API error, then a user turn that reports no change",
			[]testStep{roomTaken, userTurn("yes, please go on with it"), roomTaken},
			[]int{2},
		},
		{
			"an API error, then a user turn that reports a change",
			[]testStep{roomTaken, userTurn("I've updated the booking, try again"), roomTaken},
			nil,
		},
		{
			"a transient failure, then a user turn",
			[]testStep{bookRoom("Error: request timed out"), userTurn("hm"), bookRoom("Error: request timed out")},
			nil,
		},
		{
			"a change by the API between its errors",
			[]testStep{roomTaken, call("cancel_booking", `{"room":12}`, `{"status":"cancelled"}`), roomTaken},
			nil,
		},
		{
			"a lookup by the API between its errors",
			[]testStep{roomTaken, call("get_rooms", `{}`, `[12]`), roomTaken},
			[]int{2},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, d := range []wire.Dialect{wire.Chat, wire.Messages, wire.Responses} {
				if got := replay(t, d, tc.steps); !slices.Equal(got, tc.want) {
					t.Errorf("%s: loops at steps %v, want %v", d, got, tc.want)
				}
			}
		})
	}
}

// A loop gets a second warning if the agent repeats the same calls after the first warning. After a change, a user turn
// or different calls, the next warning is a first warning again.
func TestIsSecondWarningMarksRepeatedLoop(t *testing.T) {
	roomTaken := call("book_room", `{"room":12}`, "Error: room 12 is taken")
	edit := call("edit", `{"path":"a.go","oldText":"x","newText":"y"}`, "Successfully replaced text in a.go.")
	var guesses []testStep
	for i := range 10 {
		path := fmt.Sprintf("/d%d/a.csv", i)
		guesses = append(guesses, call("read_text_file", jsonArgs("path", path), "Error: ENOENT: no such file or directory, open '"+path+"'"))
	}
	for name, tc := range map[string]struct {
		steps []testStep
		want  []bool
	}{
		"nine failures":                {repeatSteps(9, failedBash("make")), []bool{false, true}},
		"sixteen equal plans":          {repeatSteps(16, call("todowrite", `{"todos":[{"content":"read the scripts","status":"in_progress"},{"content":"write the units","status":"pending"}]}`, "ok")), []bool{false, true}},
		"twelve reads":                 {repeatSteps(12, call("read", jsonArgs("path", "a"), "line 1")), []bool{false, true}},
		"an edit between two loops":    {append(append(repeatSteps(3, failedBash("make")), edit), repeatSteps(2, failedBash("make"))...), []bool{false, false}},
		"a user turn between failures": {[]testStep{roomTaken, roomTaken, userTurn("yes, please go on with it"), roomTaken}, []bool{false, false}},
		"ten guessed paths":            {guesses, []bool{false, false}},
		"two failures":                 {repeatSteps(2, failedBash("make")), []bool{false}},
	} {
		warned, got := map[string]bool{}, []bool(nil)
		for n := range tc.steps {
			for _, l := range new(detect.Results).Loops(parse(t, wire.Chat, obj{"messages": chat(tc.steps[:n+1])}), warned, nil) {
				warned[l.CallID] = true
				got = append(got, l.IsSecondWarning)
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: got IsSecondWarning = %v, want %v", name, got, tc.want)
		}
	}
}

// In testdata/loops.jsonl, each session has a label. Loops and LoopsSince must find a loop only in the sessions with
// the label loop.
func TestLoopsFindsOnlyLabelledLoops(t *testing.T) {
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
		var steps []testStep
		for _, s := range c.Steps {
			if s.Tool == "user" {
				steps = append(steps, userTurn(s.Result))
				continue
			}
			steps = append(steps, call(s.Tool, string(s.Args), s.Result))
		}
		want := c.Label == "loop"
		if got := replay(t, wire.Chat, steps); (len(got) > 0) != want {
			t.Errorf("%s, requests with history: loops at steps %v, want a loop: %v", c.Name, got, want)
		}
		if got := replayFromCheckpoints(t, steps); (len(got) > 0) != want {
			t.Errorf("%s, requests without history: loops at steps %v, want a loop: %v", c.Name, got, want)
		}
	}
}
