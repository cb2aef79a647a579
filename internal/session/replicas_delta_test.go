package session

import (
	"testing"
	"time"

	"precept/internal/wire"
)

// A request without history has only new items.
func TestUnknownCallResultMeansServedElsewhere(t *testing.T) {
	r := &Record{}
	r.Begin(parse(t, wire.Responses, "input", []obj{{"role": "user", "content": "hi"}}), time.Unix(1, 0))
	r.AddReply(&wire.Reply{ID: "resp_1", Calls: []wire.Call{{ID: "known", Name: "sh", Args: "{}"}}, Complete: true})
	for call, want := range map[string]bool{"known": false, "unknown": true} {
		next := parse(t, wire.Responses, "input", []obj{{"type": "function_call_output", "call_id": call, "output": "x"}}, obj{"previous_response_id": "resp_1"})
		if got := r.WasServedElsewhere(next); got != want {
			t.Errorf("%s call: got WasServedElsewhere = %v, want %v", call, got, want)
		}
	}
}
