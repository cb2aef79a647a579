package detect_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"precept/detect"
	"precept/internal/wire"
)

// testStep is a user turn, or a call with its result.
type testStep struct {
	user               string // "" for a call
	tool, args, result string
	sameAnswer         bool // the model sent the call together with the previous one
}

func userTurn(text string) testStep { return testStep{user: text} }

func call(tool, args, result string) testStep {
	return testStep{tool: tool, args: args, result: result}
}

func bash(cmd, result string) testStep { return call("bash", jsonArgs("command", cmd), result) }

// parallel puts the call into the same answer as the previous step.
func parallel(step testStep) testStep {
	step.sameAnswer = true
	return step
}

func jsonArgs(key, value string) string {
	b, _ := json.Marshal(map[string]string{key: value})
	return string(b)
}

func failedBash(cmd string) testStep { return bash(cmd, "boom\n\nCommand exited with code 2") }

func repeatSteps(n int, steps ...testStep) (all []testStep) {
	for range n {
		all = append(all, steps...)
	}
	return all
}

func parse(tb testing.TB, d wire.Dialect, body any) *wire.Request {
	tb.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		tb.Fatal(err)
	}
	req, err := wire.Parse(d, b)
	if err != nil {
		tb.Fatalf("Parse(%s): %v", b, err)
	}
	return req
}

type obj = map[string]any

// chat returns the steps as messages of the chat completions API.
func chat(steps []testStep) []any {
	msgs := []any{obj{"role": "user", "content": "do the task"}}
	for i, step := range steps {
		if step.user != "" {
			msgs = append(msgs, obj{"role": "user", "content": step.user})
			continue
		}
		id := fmt.Sprintf("c%d", i)
		c := obj{"id": id, "type": "function", "function": obj{"name": step.tool, "arguments": step.args}}
		if step.sameAnswer {
			for _, msg := range slices.Backward(msgs) {
				if m := msg.(obj); m["role"] == "assistant" {
					m["tool_calls"] = append(m["tool_calls"].([]any), c)
					break
				}
			}
		} else {
			msgs = append(msgs, obj{"role": "assistant", "content": nil, "tool_calls": []any{c}})
		}
		msgs = append(msgs, obj{"role": "tool", "tool_call_id": id, "content": step.result})
	}
	return msgs
}

// messages returns the steps as messages of the Anthropic messages API.
func messages(steps []testStep) []any {
	msgs := []any{obj{"role": "user", "content": "do the task"}}
	for i, step := range steps {
		if step.user != "" {
			msgs = append(msgs, obj{"role": "assistant", "content": "What next?"}, obj{"role": "user", "content": []any{obj{"type": "text", "text": step.user}}})
			continue
		}
		id := fmt.Sprintf("c%d", i)
		use := obj{"type": "tool_use", "id": id, "name": step.tool, "input": json.RawMessage(step.args)}
		res := obj{"type": "tool_result", "tool_use_id": id, "content": step.result}
		if step.sameAnswer {
			a, u := msgs[len(msgs)-2].(obj), msgs[len(msgs)-1].(obj)
			a["content"], u["content"] = append(a["content"].([]any), use), append(u["content"].([]any), res)
			continue
		}
		msgs = append(msgs, obj{"role": "assistant", "content": []any{use}}, obj{"role": "user", "content": []any{res}})
	}
	return msgs
}

// responses returns the steps as items of the responses API.
func responses(steps []testStep) []any {
	items := []any{obj{"role": "user", "content": "do the task"}}
	var outputs []any
	for i, step := range steps {
		if step.user != "" {
			items = append(items, obj{"type": "message", "role": "assistant", "content": "What next?"}, obj{"role": "user", "content": step.user})
			continue
		}
		id := fmt.Sprintf("c%d", i)
		if !step.sameAnswer {
			items, outputs = append(items, outputs...), nil
		}
		items = append(items, obj{"type": "function_call", "call_id": id, "name": step.tool, "arguments": step.args})
		out := obj{"type": "function_call_output", "call_id": id, "output": step.result}
		if i+1 < len(steps) && steps[i+1].sameAnswer {
			outputs = append(outputs, out)
			continue
		}
		items, outputs = append(append(items, outputs...), out), nil
	}
	return items
}

// replay passes a test session to Loops in growing requests, and returns the indices of steps with a loop.
func replay(tb testing.TB, d wire.Dialect, steps []testStep) []int {
	tb.Helper()
	warned := map[string]bool{}
	var out []int
	for n := 1; n <= len(steps); n++ {
		if n < len(steps) && steps[n].sameAnswer || steps[n-1].user != "" {
			continue
		}
		var req *wire.Request
		switch d {
		case wire.Messages:
			req = parse(tb, d, obj{"messages": messages(steps[:n])})
		case wire.Responses:
			req = parse(tb, d, obj{"input": responses(steps[:n])})
		case wire.Chat, wire.NoDialect:
			req = parse(tb, wire.Chat, obj{"messages": chat(steps[:n])})
		}
		for _, l := range new(detect.Results).Loops(req, warned, nil) {
			if warned[l.CallID] {
				tb.Errorf("call %s is reported as a loop twice", l.CallID)
			}
			warned[l.CallID] = true
			var i int
			_, _ = fmt.Sscanf(l.CallID, "c%d", &i)
			out = append(out, i)
			found := false
			for _, r := range req.Item(l.Index).Results {
				found = found || r.CallID == l.CallID
			}
			if !found || l.Tool != steps[i].tool {
				tb.Errorf("loop %+v: the loop's item has the result of the call = %v, want true; want tool %s", l, found, steps[i].tool)
			}
		}
		if repeated := new(detect.Results).Loops(req, warned, nil); len(repeated) > 0 {
			tb.Errorf("Loops after the warnings = %+v, want none", repeated)
		}
	}
	return out
}

// drawSteps draws a session in which commands and failures often repeat.
func drawSteps(t *rapid.T) []testStep {
	cmds := []string{"make", "make test", "sh run.sh", "cat a"}
	n := rapid.IntRange(1, 12).Draw(t, "n")
	var steps []testStep
	for i := range n {
		cmd := rapid.SampledFrom(cmds).Draw(t, fmt.Sprint("cmd", i))
		switch rapid.IntRange(0, 7).Draw(t, fmt.Sprint("kind", i)) {
		case 0:
			steps = append(steps, userTurn(rapid.SampledFrom([]string{"go on", "try again"}).Draw(t, "words")))
		case 1:
			steps = append(steps, call("edit", `{"path":"a","oldText":"x"}`, "Successfully replaced text in a."))
		case 2:
			steps = append(steps, bash(cmd, "fine\n\nCommand exited with code 0"))
		case 3:
			steps = append(steps, call("book_room", `{"room":12}`, "Error: room 12 is taken"))
		case 4:
			steps = append(steps, bash(cmd, "something"))
		default:
			steps = append(steps, failedBash(cmd))
		}
	}
	return steps
}

// replayFromCheckpoints passes only new items to LoopsSince, as if the provider kept the history.
func replayFromCheckpoints(tb testing.TB, steps []testStep) []int {
	tb.Helper()
	warned, calls := map[string]bool{}, map[string]wire.Call{}
	recall := func(id string) (wire.Call, bool) { c, ok := calls[id]; return c, ok }
	var checkpoint []byte
	var out []int
	var pending []any
	for i, step := range steps {
		if step.user != "" {
			pending = append(pending, obj{"role": "user", "content": step.user})
			continue
		}
		id := fmt.Sprintf("c%d", i)
		if len(pending) > 0 { // the user's turn comes before the answer with calls
			req := parse(tb, wire.Responses, obj{"previous_response_id": "r", "input": pending})
			_, checkpoint = detect.LoopsSince(checkpoint, req, warned, recall)
			pending = nil
		}
		calls[id] = wire.Call{ID: id, Name: step.tool, Args: step.args}
		req := parse(tb, wire.Responses, obj{"previous_response_id": "r", "input": []any{obj{"type": "function_call_output", "call_id": id, "output": step.result}}})
		var loops []detect.Loop
		loops, checkpoint = detect.LoopsSince(checkpoint, req, warned, recall)
		for _, l := range loops {
			warned[l.CallID] = true
			out = append(out, i)
		}
		if len(checkpoint) > 1+detect.CheckpointSteps*detect.CheckpointSize {
			tb.Fatalf("len(checkpoint) = %d, want at most %d", len(checkpoint), 1+detect.CheckpointSteps*detect.CheckpointSize)
		}
	}
	return out
}
