package detect_test

import (
	"strings"
	"testing"

	"precept/detect"
	"precept/internal/wire"
)

// textTurns returns messages without tools, in which texts from the model and the user alternate.
func textTurns(texts ...string) []any {
	list := []any{obj{"role": "user", "content": "do the task"}}
	for i, text := range texts {
		list = append(list, obj{"role": [...]string{"assistant", "user"}[i%2], "content": text})
	}
	return list
}

// An agent without declared tools writes a call as a JSON object or a code block, and sends the result as a user
// message. A person can also write such messages. Therefore a code block, or a call that succeeded, must recur more
// often than a failed JSON call before it counts as a loop.
func TestRepeatedTextCallsAreALoop(t *testing.T) {
	const (
		object = `{"request": "fetch", "url": "http://a.test/x"}`
		other  = `{"request": "fetch", "url": "http://a.test/y"}`
		fence  = "Try this:\n```sh\nmake shop\n```"
		failed = "Error: 404 not found"
	)
	repeat := func(n int, texts ...string) (out []string) {
		for range n {
			out = append(out, texts...)
		}
		return out
	}
	for name, tc := range map[string]struct {
		texts []string
		want  bool
	}{
		"an object that failed twice": {repeat(2, object, failed), true},
		"an object that failed twice, with other text around it": {
			[]string{"I try.\n" + object, failed, "<think>Hm.</think>" + object, failed}, true,
		},
		"an object that failed twice, with different durations": {
			[]string{object, failed + " (12 ms)", object, failed + " (31 ms)"}, true,
		},
		"an object that failed twice, with a different object in between": {
			[]string{object, failed, other, "<html>", object, failed}, true,
		},
		"two different objects that failed": {
			[]string{object, failed, other, failed}, false,
		},
		"a success twice":      {repeat(2, object, "<html>"), false},
		"a success five times": {repeat(5, object, "<html>"), true},
		"failures that differ": {
			[]string{object, failed, object, "Error: connection refused"}, false,
		},
		`a user who writes "continue"`:         {repeat(4, fence, "continue"), false},
		"a code block that failed twice":       {repeat(2, fence, failed), false},
		"a code block that failed three times": {repeat(3, fence, failed), true},
		"two different code blocks that failed": {
			[]string{fence, failed, "Then\n```sh\nmake -B shop\n```", failed}, false,
		},
		"an object that answers a user": {
			repeat(4, `{"reply": "What do you mean?"}`, "help"), false,
		},
		"answers without an object or a code block": {
			repeat(4, "I cannot do that.", failed), false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			req := parse(t, wire.Chat, obj{"model": "m", "messages": textTurns(tc.texts...)})
			loops := new(detect.Results).Loops(req, nil, nil)
			if (len(loops) > 0) != tc.want {
				t.Errorf("Loops = %+v, want a loop: %t", loops, tc.want)
			}
			tools := []any{obj{"type": "function", "function": obj{"name": "fetch"}}}
			req = parse(t, wire.Chat, obj{"model": "m", "messages": textTurns(tc.texts...), "tools": tools})
			if loops := new(detect.Results).Loops(req, nil, nil); len(loops) > 0 {
				t.Errorf("request that declares tools: Loops = %+v, want none", loops)
			}
		})
	}
}

// If the model and the user repeat a pair of messages, package wire takes the user's message for the result of a call
// (wire.Result.Inferred).
func TestInferredResultKeepsHashAndText(t *testing.T) {
	pair := []string{`{"request": "fetch"}`, "Error: 404 not found"}
	once := parse(t, wire.Chat, obj{"model": "m", "messages": textTurns(pair...)})
	twice := parse(t, wire.Chat, obj{"model": "m", "messages": textTurns(append(pair, pair...)...)})
	if len(once.Item(2).Results) > 0 || !twice.Item(2).ResultInferred() || !twice.Item(4).ResultInferred() {
		t.Fatalf("item 2 has %d results before the repetition, want 0; results inferred after it: item 2 = %v, item 4 = %v, want true for both",
			len(once.Item(2).Results), twice.Item(2).ResultInferred(), twice.Item(4).ResultInferred())
	}
	for i := 1; i <= 2; i++ {
		if once.Hash(i) != twice.Hash(i) {
			t.Errorf("Hash(%d) after the repetition: got %[3]v, want %[2]v, as before the repetition", i, once.Hash(i), twice.Hash(i))
		}
	}
	if got := once.Item(2).UserText; !strings.Contains(got, "404") {
		t.Errorf("item 2 before the repetition: UserText = %q, want it to contain 404", got)
	}
	if got := twice.Item(2).UserText; got != pair[1] {
		t.Errorf("item 2 after the repetition: UserText = %q, want %q", got, pair[1])
	}
	l := new(detect.Results).Loops(twice, nil, nil)
	if len(l) != 1 {
		t.Fatalf("Loops = %+v, want one loop", l)
	}
	if item, _, ok := twice.Find(twice.AnchorAt(4, l[0].CallID)); !ok || item != 4 {
		t.Errorf("loop anchor: item = %d, found = %t, want item 4, found true", item, ok)
	}
}
