package detect_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"precept/detect"
	"precept/internal/wire"
)

func outcomesByResult() map[string]detect.Outcome {
	return map[string]detect.Outcome{
		"error: no rule to make target 'demo'\nmake: *** [all] Error 2":                                        detect.Error,
		"Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    f()\nKeyError: 'total'": detect.Error,
		"bash: cartctl: command not found":                                                                     detect.Error,
		"--- FAIL: TestTotal (0.00s)\n    cart_test.go:7: got 3, want 4\nFAIL\nFAIL\tshop/cart\t0.004s\nFAIL":  detect.Error,
		"==== 1 failed, 21 passed in 3.20s ====":                                                               detect.Error,
		"ok  \tshop/cart\t0.003s":                                                                              detect.OK,
		"cart.go\ncart_test.go\nerrors.go":                                                                     detect.OK,
		"commit 4f2a\n\n    cart: tell an error from a failure\n\n 2 files changed, 9 insertions(+)":           detect.OK,
		"==== 22 passed in 3.20s ====":                                                                         detect.OK,
		"The user doesn't want to proceed with this tool use. The tool use was rejected.":                      detect.Refusal,
		"Process running with session ID 41234":                                                                detect.Pending,
	}
}

// A frame is the text that a harness adds to a command's output.
func TestFrameDoesNotChangeTheOutcome(t *testing.T) {
	const args = `{"command":"make demo"}`
	for text, want := range outcomesByResult() {
		frames := map[string]string{
			"no frame":             text,
			"trailing line feeds":  text + "\n\n",
			"lines end with CR LF": strings.ReplaceAll(text, "\n", "\r\n"),
			"a trailing reminder":  text + "\n<system-reminder>Keep the list of errors that failed short.</system-reminder>",
			"a heading":            "OBSERVATION:\n" + text,
			"a shell prompt":       text + "\nbash-$",
		}
		if want == detect.Error || want == detect.OK { // a harness prints refusals and pending messages without colours
			frames["colours"] = "\x1b[31m" + strings.ReplaceAll(text, "\n", "\x1b[0m\n\x1b[31m") + "\x1b[0m"
		}
		for name, framed := range frames {
			if got := detect.Classify("bash", args, framed, 0); got.Outcome != want {
				t.Errorf("%s: result %q: got outcome %s (rule %q), want %s", name, text, got.Outcome, got.Rule, want)
			}
		}
	}
}

func TestExitCodeOverridesTheOutput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SampledFrom([]string{"all fine", "error: x", "ok  \tshop\t0.1s", "7 items", "Zürich", "[1, 2]", "FAIL"})
		text := strings.Join(rapid.SliceOfN(line, 0, 6).Draw(t, "lines"), "\n")
		code := rapid.IntRange(1, 125).Draw(t, "code")
		form := rapid.SampledFrom([]string{
			"Exit code %[1]d\n%[2]s", "%[2]s\n\nCommand exited with code %[1]d", "Chunk ID: 1a\nWall time: 0.1 seconds\nProcess exited with code %[1]d\nOutput:\n%[2]s",
			"<returncode>%[1]d</returncode>\n<output>\n%[2]s\n</output>",
		}).Draw(t, "form")
		got := detect.Classify("bash", `{"command":"make demo"}`, fmt.Sprintf(form, code, text), 0)
		if got.Outcome != detect.Error || got.Code != code {
			t.Fatalf("form %q with exit code %d and output %q: got judgement %+v, want an error with code %d", form, code, text, got, code)
		}
	})
}

// newRequest returns a request with a shell command, the result and a user message.
func newRequest(tb testing.TB, d wire.Dialect, command, result, message string) *wire.Request {
	tb.Helper()
	type obj = map[string]any
	args := string(wire.AppendString(nil, command))
	args = `{"command":` + args + `}`
	var list []obj
	switch d {
	case wire.Chat:
		list = []obj{
			{"role": "user", "content": "build it"},
			{
				"role": "assistant", "content": "I build it.",
				"tool_calls": []obj{
					{
						"id": "c1", "type": "function",
						"function": obj{"name": "bash", "arguments": args},
					},
				},
			},
			{"role": "tool", "tool_call_id": "c1", "content": result},
			{"role": "user", "content": message},
		}
	case wire.Responses:
		list = []obj{
			{"role": "user", "content": "build it"},
			{
				"type": "message", "role": "assistant",
				"content": []obj{{"type": "output_text", "text": "I build it."}},
			},
			{"type": "function_call", "call_id": "c1", "name": "bash", "arguments": args},
			{"type": "function_call_output", "call_id": "c1", "output": result},
			{"role": "user", "content": message},
		}
	case wire.Messages, wire.NoDialect:
		list = []obj{
			{"role": "user", "content": "build it"},
			{
				"role": "assistant",
				"content": []obj{
					{"type": "text", "text": "I build it."},
					{
						"type": "tool_use", "id": "c1", "name": "bash",
						"input": json.RawMessage(args),
					},
				},
			},
			{
				"role": "user",
				"content": []obj{
					{"type": "tool_result", "tool_use_id": "c1", "content": result},
					{"type": "text", "text": message},
				},
			},
		}
	}
	key := map[wire.Dialect]string{wire.Chat: "messages", wire.Responses: "input", wire.Messages: "messages"}[d]
	body, err := json.Marshal(obj{key: list})
	if err != nil {
		tb.Fatal(err)
	}
	req, err := wire.Parse(d, body)
	if err != nil {
		tb.Fatal(err)
	}
	return req
}

func TestSignalsAreTheSameInEveryDialect(t *testing.T) {
	for _, tc := range []struct{ name, command, result, message, want string }{
		{
			"a failed test, then a correction", "go test ./...",
			"--- FAIL: TestTotal (0.00s)\nFAIL\tshop\t0.1s\nFAIL",
			"no, use the other helper instead", "rejection 2 verify:test; correction 3 no-but",
		},
		{
			"a passed test, then an approval", "go test ./...", "ok  \tshop\t0.1s",
			"perfect, that works", "approval 2 verify:test; approval 3 praise",
		},
		{
			"a refusal by a person", "rm -r build",
			"The user doesn't want to proceed with this tool use.", "now the tests",
			"rejection 3 refusal:claude",
		},
		{"thanks", "ls", "a.go", "thanks", ""},
		{
			"a harness message", "ls", "a.go",
			"<system-reminder>that's wrong</system-reminder>", "",
		},
	} {
		for _, d := range []wire.Dialect{wire.Chat, wire.Responses, wire.Messages} {
			var out []string
			for _, s := range new(detect.Results).Signals(newRequest(t, d, tc.command, tc.result, tc.message), nil) {
				out = append(out, fmt.Sprintf("%s %d %s", s.Feeling, s.Tier, s.Rule))
			}
			if got := strings.Join(out, "; "); got != tc.want {
				t.Errorf("%s, %s: got feedback %q, want %q", tc.name, d, got, tc.want)
			}
		}
	}
}

func TestClassifyTurnIgnoresSpellingAndPunctuation(t *testing.T) {
	const previous = "Done. The cart now sums the items."
	for text, want := range map[string]detect.Feeling{
		"that doesn't work": detect.Rejection, "no, that's wrong": detect.Rejection, "don't touch the tests": detect.Correction,
		"I'd like it shorter instead": detect.Correction, "perfect, that's it": detect.Approval, "thanks a lot": detect.Thanks, "what's in the cart?": detect.Neutral,
	} {
		for name, typed := range map[string]string{
			"in capitals": strings.ToUpper(text), "with typographic quotes": strings.ReplaceAll(text, "'", "’"), "with white space": "  " + strings.ReplaceAll(text, " ", " \n ") + "\n",
			"after hm": "hm, " + text, "with a full stop": text + " .",
		} {
			if got := detect.ClassifyTurn(typed, typed, previous); got.Feeling != want {
				t.Errorf("%q %s: got feeling %s (rule %q), want %s", text, name, got.Feeling, got.Rule, want)
			}
		}
	}
}

func TestSignatureLinesComeFromTheText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SampledFrom([]string{"./cart.go:9:2: undefined: total", "KeyError: 'x'", "some words", "npm error code 1", "FAIL\tshop", "", "  at f (a.js:1:2)", "error: boom"})
		lines := rapid.SliceOfN(line, 1, 30).Draw(t, "lines")
		text := strings.Join(lines, "\n")
		signature := detect.Signature(text)
		for l := range strings.SplitSeq(signature, "\n") {
			if l != "" && !strings.Contains(text, l) {
				t.Fatalf("signature line %q is not in the text %q", l, text)
			}
		}
		if repeated := detect.Signature(text); repeated != signature {
			t.Fatalf("second Signature(%q) = %q, want %q, as from the first call", text, repeated, signature)
		}
	})
}
