package inject

import (
	"testing"

	"precept/internal/session"
	"precept/internal/wire"
)

// In requests with previous_response_id, a user message that repeats the one before the reply starts a new turn. Only
// the first of these turns gets a block, because the provider keeps the block.
func TestRepeatedMessageAfterReplyStartsTurn(t *testing.T) {
	s := newTestSession(t, responses, injectAll(), newBook(activeLesson("a", "continue", "x")), "s")
	s.plan([]byte(`{"model":"m","input":"hello"}`))
	for i, tc := range []struct {
		previous string
		edits    int
	}{{"resp_1", 1}, {"resp_2", 0}, {"resp_3", 0}} {
		s.rec.AddReply(&wire.Reply{ID: tc.previous, Complete: true})
		p := s.plan([]byte(`{"model":"m","previous_response_id":"` + tc.previous + `","input":[{"role":"user","content":"continue"}]}`))
		if p.Kind != session.NewTurn || len(p.Edits) != tc.edits {
			t.Errorf("request %d: got kind %v with %d edits, want a new turn with %d edits", i+2, p.Kind, len(p.Edits), tc.edits)
		}
	}
}

func TestRepeatedInputIsRetryBeforeReply(t *testing.T) {
	s := newTestSession(t, responses, injectAll(), newBook(activeLesson("a", "continue", "x")), "s")
	body := []byte(`{"model":"m","conversation":"conv_1","input":[{"role":"user","content":"continue"}]}`)
	s.plan(body)
	if p := s.plan(body); p.Kind != session.Retry {
		t.Errorf("second request without a reply: got kind %v, want a retry", p.Kind)
	}
	s.rec.AddReply(&wire.Reply{ID: "resp_1", Complete: true})
	if p := s.plan(body); p.Kind != session.NewTurn || len(p.Edits) != 0 {
		t.Errorf("request after a reply: got kind %v with %d edits, want a new turn without edits", p.Kind, len(p.Edits))
	}
}

// Providers keep the list of messages of a request, but not the instructions. Therefore a block in the instructions
// must be in each request.
func TestEachDeltaRequestGetsInstructionsBlock(t *testing.T) {
	for name, tc := range map[string]struct {
		first, next string
		edits       int // number of edits to the next request
	}{
		"instructions in both requests":       {`"instructions":"Be good.","input":"please deploy"`, `"instructions":"Be good.",`, 1},
		"no system prompt":                    {`"input":"please deploy"`, ``, 1},
		"system message in the first request": {`"input":[{"role":"developer","content":"Be good."},{"role":"user","content":"please deploy"}]`, ``, 0},
	} {
		cfg := injectAll()
		cfg.Placement = InSystem
		s := newTestSession(t, responses, cfg, newBook(activeLesson("a", "deploy", "x")), "s")
		if p := s.plan([]byte(`{"model":"m",` + tc.first + `}`)); len(p.Edits) != 1 || p.Edits[0].Item != wire.System {
			t.Fatalf("%s: first request's edits: got %+v, want one in the system prompt", name, p.Edits)
		}
		s.rec.AddReply(&wire.Reply{ID: "resp_1", Complete: true})
		p := s.plan([]byte(`{"model":"m",` + tc.next + `"previous_response_id":"resp_1","input":[{"role":"user","content":"go on"}]}`))
		if len(p.Edits) != tc.edits {
			t.Errorf("%s: the next request has %d edits (skip %q), want %d", name, len(p.Edits), p.SkipReason, tc.edits)
		}
	}
}
