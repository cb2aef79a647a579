package detect_test

import (
	"fmt"
	"testing"

	"precept/detect"
	"precept/internal/wire"
)

// In a request with 2,100 calls, Loops reaches the limit for the number of steps that it compares.
func TestLoopsSearchIsLimited(t *testing.T) {
	const files, rounds = 700, 3
	msgs := []any{obj{"role": "user", "content": "do the task"}}
	for round := range rounds {
		var calls, results []any
		for i := range files {
			id := fmt.Sprint("c", round*files+i)
			calls = append(calls, obj{"id": id, "type": "function", "function": obj{"name": "bash", "arguments": fmt.Sprintf(`{"command":"cat file%d.txt"}`, i)}})
			results = append(results, obj{"role": "tool", "tool_call_id": id, "content": fmt.Sprint("line ", i)})
		}
		msgs = append(append(msgs, obj{"role": "assistant", "tool_calls": calls}), results...)
	}
	if got := new(detect.Results).Loops(parse(t, wire.Chat, obj{"messages": msgs}), nil, nil); len(got) != 0 {
		t.Errorf("%d files that were read %d times: Loops = %v, want none", files, rounds, got)
	}
}
