package detect_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"precept/detect"
	"precept/internal/wire"
)

func inspect(tb testing.TB, in string) ([]detect.Finding, error) {
	tb.Helper()
	var out []detect.Finding
	err := detect.Inspect(strings.NewReader(in), func(f detect.Finding) error {
		out = append(out, f)
		return nil
	})
	return out, err
}

func mustJSON(tb testing.TB, v any) string {
	tb.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}

var sampleSession = []testStep{ //nolint:gochecknoglobals // immutable
	failedBash("make"),
	failedBash("make"),
	bash("./serve", "Command running in background with ID: 1"),
	bash("rm x", "The user rejected permission to use this specific tool call."),
	userTurn("no, that's wrong"),
	bash("ls", "a.go"),
}

func TestInspectAcceptsEveryFormat(t *testing.T) {
	summary := func(fs []detect.Finding) string {
		var b strings.Builder
		for _, f := range fs {
			fmt.Fprintf(&b, "%s=%s ", f.Kind, f.Label)
		}
		return b.String()
	}
	want := "user=neutral tool_result=error tool_result=error loop= tool_result=pending tool_result=refusal user=rejection tool_result=ok "
	transcript := func(key string, list []any) string {
		return mustJSON(t, obj{"source": "s", "id": "7", key: list})
	}
	for name, in := range map[string]string{
		"chat":              transcript("messages", chat(sampleSession)),
		"messages":          transcript("messages", messages(sampleSession)),
		"responses":         transcript("input", responses(sampleSession)),
		"responses as list": transcript("messages", responses(sampleSession)),
		"list of messages":  mustJSON(t, chat(sampleSession)),
		"array of sessions": "[" + transcript("messages", chat(sampleSession)) + "]",
		"byte order mark":   "\xef\xbb\xbf" + transcript("messages", chat(sampleSession)),
		"lines":             "\xef\xbb\xbf\n" + transcript("messages", chat(sampleSession)) + "\n",
		"request body": mustJSON(
			t, obj{"model": "m", "tools": []any{}, "messages": chat(sampleSession)},
		),
	} {
		got, err := inspect(t, in)
		if err != nil || summary(got) != want {
			t.Errorf("%s: err = %v, findings:\ngot  %s\nwant %s", name, err, summary(got), want)
		}
	}
	two, err := inspect(t, transcript("messages", chat(sampleSession))+"\n"+transcript("messages", messages(sampleSession)))
	if err != nil || summary(two) != want+want {
		t.Fatalf("two lines: err = %v, findings:\ngot  %s\nwant %s", err, summary(two), want+want)
	}
	if two[0].Source != "s" || two[0].ID != "7" || two[0].Index != 0 {
		t.Errorf(`first finding = %+v, want Source = "s", ID = "7", Index = 0`, two[0])
	}
}

func TestInspectFindingsHaveMessageIndex(t *testing.T) {
	list := append([]any{obj{"role": "system", "content": "be brief"}}, chat(sampleSession)...)
	got, err := inspect(t, mustJSON(t, obj{"source": "a", "id": 3, "messages": list}))
	if err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	for _, f := range got {
		lines.WriteString(mustJSON(t, f) + "\n")
		role := list[f.Index].(obj)["role"]
		if (f.Kind == detect.KindUser) != (role == "user") {
			t.Errorf("finding %+v is at a message with role %v, want role user if and only if the kind is %s", f, role, detect.KindUser)
		}
	}
	checkGolden(t, "inspect.jsonl", lines.String())
}

func TestInspectReportsInvalidInput(t *testing.T) {
	good := mustJSON(t, obj{"id": "g", "messages": chat(sampleSession)})
	for name, tc := range map[string]struct {
		in       string
		hasValid bool // whether Inspect reports findings from the valid part
	}{
		"empty input":                      {"", false},
		"white space":                      {" \n", false},
		"not JSON":                         {"hello", false},
		"no list":                          {`{"id":"x"}`, false},
		"list is a string":                 {`{"id":"x","messages":"hi"}`, false},
		"invalid line between valid lines": {good + "\n" + `{"id":"x","messages":{}}` + "\n" + good, true},
		"truncated line":                   {good + "\n" + good[:len(good)/2], true},
		"truncated array":                  {"[" + good + ",", true},
		"truncated bare list":              {mustJSON(t, chat(sampleSession))[:200], false},
		"unclosed array":                   {"[" + good, true},
		"truncated array element":          {"[" + good + ",{", true},
		"only a brace in the last line":    {good + "\n{", true},
		"number without a comma":           {"[" + good + " 3]", true},
		"array without a comma":            {"[" + good + good + "]", true},
	} {
		got, err := inspect(t, tc.in)
		if err == nil || (len(got) > 0) != tc.hasValid {
			t.Errorf("%s: got %d findings, err = %v; want an error, and findings: %t", name, len(got), err, tc.hasValid)
		}
	}
	stop := errors.New("stop")
	n := 0
	err := detect.Inspect(strings.NewReader(good+"\n"+good), func(detect.Finding) error { n++; return stop })
	if !errors.Is(err, stop) || n != 1 {
		t.Errorf("callback that returns an error: err = %v after %d findings, want %v after 1", err, n, stop)
	}
}

// Inspect reads the whole transcript at once, and Loops reads each request of the session. Both must find the same
// loops.
func TestInspectAndLoopsAgreeOnItems(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawSteps(rt)
		var want []int
		for _, i := range replay(t, wire.Chat, s) {
			want = append(want, 2+2*i-userTurnsBefore(s, i))
		}
		got, err := inspect(t, mustJSON(t, obj{"messages": chat(s)}))
		if err != nil {
			rt.Fatal(err)
		}
		var loopItems []int
		for _, f := range got {
			if f.Kind == detect.KindLoop {
				loopItems = append(loopItems, f.Index)
			}
		}
		if !reflect.DeepEqual(loopItems, want) {
			rt.Fatalf("items with loops: Inspect found %v, Loops found %v", loopItems, want)
		}
	})
}

// userTurnsBefore counts the user turns before step i. A user turn is one message, and a call with the result is two.
func userTurnsBefore(s []testStep, i int) int {
	n := 0
	for _, step := range s[:i] {
		if step.user != "" {
			n++
		}
	}
	return n
}

func FuzzInspect(f *testing.F) {
	f.Add(`{"source":"s","id":"1","messages":[{"role":"user","content":"x"},{"role":"tool","tool_call_id":"a","content":"Error: x"}]}`)
	f.Add(`[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"x"}],"is_error":true}]}]`)
	f.Add(`{"input":[{"type":"function_call","call_id":"c","name":"n","arguments":"{"},{"type":"function_call_output","call_id":"c","output":"o"}]}`)
	f.Add(`{"input":"hello"}`)
	f.Fuzz(func(t *testing.T, in string) {
		findings, _ := inspect(t, in)
		for _, x := range findings {
			if x.Index < 0 || x.Kind == "" || (x.Kind == detect.KindLoop) != (x.Label == "") {
				t.Fatalf("finding = %+v, want Index >= 0, a Kind, and a Label unless the Kind is loop", x)
			}
		}
	})
}

func BenchmarkInspect(b *testing.B) {
	line := mustJSON(b, obj{"id": "1", "messages": chat(sampleSession)}) + "\n"
	in := strings.Repeat(line, 100)
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		if err := detect.Inspect(strings.NewReader(in), func(detect.Finding) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

// checkGolden compares got with a file in testdata, which PRECEPT_UPDATE=1 rewrites.
func checkGolden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if os.Getenv("PRECEPT_UPDATE") != "" {
		if err := os.MkdirAll("testdata", 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path) //nolint:gosec // a golden file
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("output differs from testdata/%s (PRECEPT_UPDATE=1 writes the file):\n%s", file, got)
	}
}

// The explanation of a loop also names the earlier result that the last result repeats.
func TestExplainNamesRuleTextAndPosition(t *testing.T) {
	in := mustJSON(t, obj{"source": "s", "id": "i", "messages": chat([]testStep{
		bash("make test", "ok a\n--- FAIL: TestTotal (0.00s)\nFAIL"),
		bash("make test", "ok a\n--- FAIL: TestTotal (0.00s)\nFAIL"),
		userTurn("thanks for the summary\nbut that's wrong"),
	})})
	explain := func(n int) *detect.Explanation {
		t.Helper()
		why, _, err := detect.Explain(strings.NewReader(in), n)
		if err != nil || why == nil {
			t.Fatalf("Explain(%d) = %v, %v, want an explanation", n, why, err)
		}
		return why
	}
	if e := explain(2); e.Rule != "text:go-test" || e.Text != "--- FAIL: TestTotal (0.00s)" || e.Line != 2 || e.Byte != 5 ||
		e.Tool != "bash" || !strings.Contains(e.Args, "make test") || e.Finding.Index != 2 || e.Meaning == "" {
		t.Errorf("failure explanation = %+v, want rule text:go-test, line 2, byte 5, item 2, and the bash call with make test", e)
	}
	if e := explain(4); e.Finding.Kind != detect.KindLoop || e.Rule != "failed-again" || e.EarlierItem == nil || *e.EarlierItem != 2 {
		t.Errorf("loop explanation = %+v, want rule failed-again and EarlierItem = 2", e)
	}
	if e := explain(5); e.Rule != "disapproval" || e.Text != "but that's wrong" || e.Line != 2 {
		t.Errorf("user turn explanation = %+v, want rule disapproval and line 2", e)
	}
	why, count, err := detect.Explain(strings.NewReader(in), 99)
	if why != nil || count != 5 || err != nil {
		t.Errorf("Explain(99) = explanation %+v, %d findings, error %v; want no explanation, 5 findings, no error", why, count, err)
	}
}

// longTranscript returns a transcript in which each round is a command, the output and a user turn.
func longTranscript(rounds int) []byte {
	var b strings.Builder
	b.WriteString(`{"source":"x","id":"long","messages":[{"role":"user","content":"run all packages"}`)
	output := strings.Repeat(`ok  \tpkg/one\t0.01s\n`, 60)
	for i := range rounds {
		fmt.Fprintf(&b, `,{"role":"assistant","content":"Package %d.","tool_calls":[{"id":"c%d","type":"function","function":{"name":"bash","arguments":"{\"command\":\"go test ./pkg/p%d\"}"}}]}`, i, i, i)
		fmt.Fprintf(&b, `,{"role":"tool","tool_call_id":"c%d","content":"%s--- FAIL: Test%d\n"},{"role":"user","content":"next"}`, i, output, i)
	}
	b.WriteString("]}\n")
	return []byte(b.String())
}

// Inspect would exceed the limits if it copied the messages, decoded each result twice or analysed each call twice.
func TestInspectAllocatesInProportionToItsInput(t *testing.T) {
	text := longTranscript(1500)
	if err := detect.Inspect(bytes.NewReader(longTranscript(1)), func(detect.Finding) error { return nil }); err != nil { // the first call reads the phrase lists
		t.Fatal(err)
	}
	var before, during, after runtime.MemStats
	findings := 0
	runtime.GC()
	runtime.ReadMemStats(&before)
	err := detect.Inspect(bytes.NewReader(text), func(detect.Finding) error {
		if findings++; findings == 2990 { // shortly before the last finding
			runtime.GC()
			runtime.ReadMemStats(&during)
		}
		return nil
	})
	runtime.ReadMemStats(&after)
	if err != nil || findings != 3001 {
		t.Fatalf("Inspect: %d findings, err = %v, want 3001 findings and no error", findings, err)
	}
	size := float64(len(text))
	if allocated := float64(after.TotalAlloc-before.TotalAlloc) / size; allocated > maxAllocated {
		t.Errorf("allocated bytes for each input byte: got %.1f, want at most %.1f", allocated, maxAllocated)
	}
	if held := float64(during.HeapAlloc-before.HeapAlloc) / size; held > maxHeld {
		t.Errorf("held bytes for each input byte: got %.1f, want at most %.1f", held, maxHeld)
	}
}

// Limits for the memory that Inspect uses, in bytes per input byte.
const (
	maxAllocated = 16.0
	maxHeld      = 2.9
)
