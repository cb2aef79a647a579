package detect_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"precept/detect"
	"precept/internal/wire"
)

// The hashes of calls and results ignore white space, key order, descriptions, times and ids.
func TestHashesIgnoreIrrelevantDifferences(t *testing.T) {
	for _, tc := range []struct {
		name, a, b string
		same       bool
	}{
		{
			"white space and key order", `{"command":"make","cwd":"/a"}`,
			`{ "cwd": "/a", "command": " make " }`, true,
		},
		{
			"a description", `{"command":"make","description":"Build it"}`,
			`{"command":"make","description":"Build it again"}`, true,
		},
		{
			"a description without a command", `{"title":"x","description":"one"}`,
			`{"title":"x","description":"two"}`, false,
		},
		{"1 and 1.0", `{"n":1}`, `{"n":1.0}`, false},
		{"big numbers", `{"n":12345678901234567890}`, `{"n":12345678901234567891}`, false},
		{"key order in a nested object", `{"a":{"x":1,"y":[1,2]}}`, `{"a":{"y":[1,2],"x":1}}`, true},
		{"list order", `{"a":[1,2]}`, `{"a":[2,1]}`, false},
		{"escapes", `{"q":"a\u0026b"}`, `{"q":"a&b"}`, true},
		{"white space in text that is not JSON", "*** Begin\n x", "*** Begin  x", true},
		{"offset", `{"path":"a","offset":1}`, `{"path":"a","offset":2}`, false},
		{"no arguments", ``, `{}`, true},
	} {
		a := detect.CanonicalArgs(tc.a)
		b := detect.CanonicalArgs(tc.b)
		if (detect.CallIdentity("t", a) == detect.CallIdentity("t", b)) != tc.same {
			t.Errorf("%s: arguments %s and %s: equal identities = %v, want %v", tc.name, a, b, !tc.same, tc.same)
		}
	}
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{
			"Chunk ID: 1a2b3c\nWall time: 0.1 seconds\nx",
			"Chunk ID: ffee01\nWall time: 3.7 seconds\nx", true,
		},
		{
			"x\n<shellId: 0 completed with exit code 3>",
			"x\n<shellId: 12 completed with exit code 3>", true,
		},
		{
			"x\n<shellId: 0 completed with exit code 3>",
			"x\n<shellId: 1 completed with exit code 4>", false,
		},
		{"panic at 0xc000012080 in goroutine 7", "panic at 0xc0000ff0a0 in goroutine 7", true},
		{"2025-03-01T10:11:12.123Z failed", "2025-03-01T10:11:13.999Z failed", true},
		{"done in 971ms", "done in 1.02s", true},
		{"done in 3 seconds", "done in 41 seconds", true},
		{"visited 5 seconds ago", "visited 61 seconds ago", true},
		{"/tmp/tmpab12cd34/x.py line 3", "/tmp/tmpzz99yy88/x.py line 3", true},
		{"127.0.0.1:45231 refused it", "127.0.0.1:39112 refused it", true},
		{"line 3: x", "line 4: x", false},
		{"3 failed", "4 failed", false},
		{"(node:31579) Warning: x", "(node:72903) Warning: x", true},
		{"\x1b[31mred\x1b[0m", "red", true},
		{"trailing  \r\n", "trailing", true},
		{
			"request 1f975693-876d-457b-a649-393859e79bf3 failed",
			"request 2e0b1f00-1111-4abc-9def-aabbccddeeff failed", true,
		},
	} {
		if (detect.ResultHash(tc.a) == detect.ResultHash(tc.b)) != tc.same {
			t.Errorf("results %q and %q: equal hashes = %v, want %v", tc.a, tc.b, !tc.same, tc.same)
		}
	}
}

// The loops must also be the same if the provider keeps the history, so that a request has only the new items.
func TestLoopsAreTheSameInEveryDialect(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := drawSteps(rt)
		want := replay(t, wire.Chat, steps)
		if got := replay(t, wire.Messages, steps); !slices.Equal(got, want) {
			rt.Fatalf("Messages: loops at steps %v, want %v as in Chat", got, want)
		}
		if got := replay(t, wire.Responses, steps); !slices.Equal(got, want) {
			rt.Fatalf("Responses: loops at steps %v, want %v as in Chat", got, want)
		}
		if got := replayFromCheckpoints(t, steps); !slices.Equal(got, want) {
			rt.Fatalf("requests without history: loops at steps %v, want %v as with history", got, want)
		}
	})
}

// Windows has exit codes such as 3221225477 (0xC0000005), but a checkpoint has 16 bits for an exit code.
func TestCheckpointFindsLoopWithLargeExitCode(t *testing.T) {
	run := func(codes ...string) (steps []testStep) {
		for _, code := range codes {
			steps = append(steps, bash("make run", "starting the program\nExit code "+code))
		}
		return steps
	}
	for _, codes := range [][]string{
		{"7", "7", "7"},
		{"-1", "-1", "-1"},
		{"32768", "32768", "32768"},
		{"40000", "40000", "40000"},
		{"65536", "65536", "65536"},
		{"3221225477", "3221225477", "3221225477"},
		{"4294967295", "4294967295", "4294967295"},
		{"-2147483645", "-2147483645", "-2147483645"},
	} {
		want := replay(t, wire.Responses, run(codes...))
		if got := replayFromCheckpoints(t, run(codes...)); len(got) == 0 || !slices.Equal(got, want) {
			t.Errorf("exit codes %v: loops at steps %v without history and %v with history, want the same steps, and at least one", codes, got, want)
		}
	}
	for _, codes := range [][]string{{"3221225477", "5"}, {"65536", "1"}, {"40000", "40001"}} {
		if got := replayFromCheckpoints(t, run(codes...)); len(got) != 0 {
			t.Errorf("exit codes %v: loops at steps %v, want none", codes, got)
		}
	}
}

func TestInvalidCheckpointCausesNoLoop(t *testing.T) {
	req := parse(t, wire.Responses, obj{"previous_response_id": "r", "input": []any{obj{"type": "function_call_output", "call_id": "x", "output": "boom"}}})
	for _, checkpoint := range [][]byte{nil, {}, {9}, {1, 2, 3}, []byte(strings.Repeat("\x01", 500))} {
		loops, next := detect.LoopsSince(checkpoint, req, nil, nil)
		if len(loops) != 0 {
			t.Errorf("LoopsSince(checkpoint %v) = %v, want no loops", checkpoint, loops)
		}
		if repeated, _ := detect.LoopsSince(next, req, nil, nil); len(repeated) != 0 {
			t.Errorf("LoopsSince(checkpoint returned for %v) = %v, want no loops, because no call is known", checkpoint, repeated)
		}
	}
}

// If a request has a result without the call, Loops gets the call from the recall function.
func TestLoopsRecallsMissingCalls(t *testing.T) {
	recall := func(id string) (wire.Call, bool) {
		return wire.Call{ID: id, Name: "bash", Args: `{"command":"make"}`}, strings.HasPrefix(id, "c")
	}
	items := []any{
		obj{"type": "item_reference", "id": "fc_1"},
		obj{
			"type": "function_call_output", "call_id": "c1",
			"output": "boom\n\nCommand exited with code 2",
		},
		obj{
			"type": "function_call", "call_id": "c2", "name": "bash",
			"arguments": `{"command":"make"}`,
		},
		obj{
			"type": "function_call_output", "call_id": "c2",
			"output": "boom\n\nCommand exited with code 2",
		},
		obj{
			"type": "function_call", "call_id": "c3", "name": "bash",
			"arguments": `{"command":"make"}`,
		},
		obj{
			"type": "function_call_output", "call_id": "c3",
			"output": "boom\n\nCommand exited with code 2",
		},
	}
	req := parse(t, wire.Responses, obj{"input": items})
	if got := new(detect.Results).Loops(req, nil, recall); len(got) != 1 {
		t.Errorf("three identical failures: Loops = %+v, want one loop", got)
	}
	if got := new(detect.Results).Loops(req, map[string]bool{"c2": true}, recall); len(got) != 0 {
		t.Errorf("after a warning at call c2: Loops = %+v, want none", got)
	}
}

// readCallsBody returns a request with 200 calls that read different parts of a file.
func readCallsBody(b *testing.B, d wire.Dialect) []byte {
	b.Helper()
	var steps []testStep
	for i := range 200 {
		steps = append(steps, call("read", fmt.Sprintf(`{"path":"internal/cart/total.go","offset":%d,"limit":50}`, i*50), fmt.Sprintf("text from line %d\n", i*50)+strings.Repeat("some source text of a file\n", 40)))
	}
	body := obj{"messages": chat(steps)}
	if d == wire.Messages {
		body = obj{"messages": messages(steps)}
	}
	raw, err := json.Marshal(body)
	if err != nil {
		b.Fatal(err)
	}
	return raw
}

func TestContainsAllWordsInAnyOrder(t *testing.T) {
	piece := rapid.SampledFrom([]string{"a", "ab", "-run", "3.go", "Q", "Qz", `\"`, "\xff", "_", "7"})
	rapid.Check(t, func(t *rapid.T) {
		raw := strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, "raw"), "")
		words := []string{strings.Join(rapid.SliceOfN(piece, 0, 3).Draw(t, "word"), ""), piece.Draw(t, "another")}
		want := strings.Contains(raw, words[0]) && strings.Contains(raw, words[1])
		if got := detect.ContainsAllWords([]byte(raw), words); got != want {
			t.Errorf("ContainsAllWords(%q, %q) = %v, want %v", raw, words, got, want)
		}
	})
}

// failuresBody returns a request with n failed calls and 8 KB per result.
func failuresBody(tb testing.TB, n int) json.RawMessage {
	tb.Helper()
	var steps []testStep
	for i := range n {
		steps = append(steps, bash(fmt.Sprintf("make target%d", i), strings.Repeat("cc -O2 -c total.c\n", 460)+fmt.Sprintf("a.c:%d: error: no type t%d\n\nCommand exited with code 1", i, i)))
	}
	return json.RawMessage(mustJSON(tb, obj{"messages": chat(steps)}))
}

func BenchmarkLoopsAfter200Failures(b *testing.B) {
	raw := failuresBody(b, 200)
	for b.Loop() {
		b.StopTimer()
		req := parse(b, wire.Chat, raw)
		b.StartTimer()
		new(detect.Results).Loops(req, nil, nil)
	}
}

func BenchmarkLoops200(b *testing.B) {
	for _, d := range []wire.Dialect{wire.Chat, wire.Messages} {
		raw := readCallsBody(b, d)
		b.Run(d.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				req, err := wire.Parse(d, raw)
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				if l := new(detect.Results).Loops(req, nil, nil); len(l) != 0 {
					b.Fatalf("Loops = %+v, want none", l)
				}
			}
		})
	}
}

func BenchmarkResultHash8K(b *testing.B) {
	text := strings.Repeat("ok   shop/cart  0.31s  at 12:31:07 pid 4711 sum 0xfe12\n", 8192/56)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		detect.ResultHash(text)
	}
}

// A tool's picture can be in the result, or in a user message after the result.
func TestCallsWithDifferentPicturesAreNotALoop(t *testing.T) {
	places := map[string]func(id, picture string) []any{
		"result": func(id, picture string) []any {
			return []any{obj{"role": "tool", "tool_call_id": id, "content": []any{obj{"type": "text", "text": "It is shown."}, obj{"type": "image_url", "image_url": obj{"url": picture}}}}}
		},
		"user message after the result": func(id, picture string) []any {
			return []any{
				obj{"role": "tool", "tool_call_id": id, "content": "See below."},
				obj{
					"role":    "user",
					"content": []any{obj{"type": "image_url", "image_url": obj{"url": picture}}},
				},
			}
		},
	}
	for name, place := range places {
		for _, samePicture := range []bool{false, true} {
			msgs := []any{obj{"role": "user", "content": "go"}}
			loops := 0
			for i := range 7 {
				id, picture := fmt.Sprintf("c%d", i), "data:same"
				if !samePicture {
					picture = fmt.Sprintf("data:%d", i)
				}
				msgs = append(msgs, obj{"role": "assistant", "tool_calls": []any{obj{"id": id, "type": "function", "function": obj{"name": "screenshot", "arguments": "{}"}}}})
				msgs = append(msgs, place(id, picture)...)
				loops += len((*detect.Results)(nil).Loops(parse(t, wire.Chat, obj{"messages": msgs}), nil, nil))
			}
			found, err := inspect(t, mustJSON(t, obj{"messages": msgs}))
			if err != nil {
				t.Fatal(err)
			}
			inspected := slices.ContainsFunc(found, func(f detect.Finding) bool { return f.Kind == detect.KindLoop })
			if (loops > 0) != samePicture || inspected != samePicture {
				t.Errorf("picture in the %s, same picture = %v: Loops found %d loops, Inspect found a loop = %v; want loops from both only if the picture is the same", name, samePicture, loops, inspected)
			}
		}
	}
}
