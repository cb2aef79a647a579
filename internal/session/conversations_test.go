package session_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"precept/internal/session"
	"precept/internal/wire"
)

// dialogue is one simulated conversation.
type dialogue struct {
	task     string
	history  []string
	replies  int
	inFlight *session.Resolved
	id       session.ID // first request's session
}

// simulation simulates agents with one credential. stored maps echo keys (hashes of ids and texts that agents send
// back) to sessions.
type simulation struct {
	*rapid.T
	threader  *session.Threader
	now       time.Time
	stored    map[session.EchoKey][]session.ID
	dialogues []*dialogue
	nameCount int // session names and reply ids
}

func (s *simulation) entropy() (e [16]byte) {
	s.nameCount++
	binary.BigEndian.PutUint64(e[8:], uint64(s.nameCount))
	return e
}

func (s *simulation) store(id session.ID, keys []session.EchoKey) {
	for _, k := range keys {
		if !slices.Contains(s.stored[k], id) {
			s.stored[k] = append([]session.ID{id}, s.stored[k]...)
		}
	}
}

func (s *simulation) findKeys(keys []session.EchoKey) map[session.EchoKey][]session.ID {
	found := map[session.EchoKey][]session.ID{}
	for _, k := range keys {
		found[k] = slices.Clone(s.stored[k])
	}
	return found
}

func (s *simulation) resolve(x *dialogue) session.Resolved {
	r := s.threader.Resolve(testScope, session.Claim{}, parseChat(s, x.history...), s.now, s.findKeys)
	s.store(r.ID, r.Echoes)
	x.inFlight = &r
	return r
}

// answer replies to the request in progress with a text or a tool call.
func (s *simulation) answer(x *dialogue, withText bool) {
	s.nameCount++
	rep := wire.Reply{ID: fmt.Sprintf("chatcmpl-9aZ8bY7cX6dW5eV4%06d", s.nameCount), Complete: true}
	if withText {
		rep.Text = fmt.Sprintf("this is answer number %d, and it is long enough that no other conversation has it", s.nameCount)
		x.history = append(x.history, assistantMessage(rep.Text))
	} else {
		id := fmt.Sprintf("toolu_01A09q90qw90lq917%06d", s.nameCount)
		rep.Calls = []wire.Call{{ID: id, Name: "sh", Args: "{}"}}
		x.history = append(x.history, callMessage(id), resultMessage(id, "ok"))
	}
	s.store(x.inFlight.ID, s.threader.RecordReply(*x.inFlight, &rep, true))
	s.threader.RecordEnd(*x.inFlight, true, s.now)
	x.inFlight = nil
	if x.replies++; withText {
		x.history = append(x.history, userMessage("go on"))
	}
}

// drawDialogue draws a conversation for which fits returns true. It returns nil if there is none.
func (s *simulation) drawDialogue(fits func(x *dialogue) bool) *dialogue {
	var candidates []*dialogue
	for _, x := range s.dialogues {
		if fits(x) {
			candidates = append(candidates, x)
		}
	}
	if len(candidates) == 0 {
		return nil
	}
	return rapid.SampledFrom(candidates).Draw(s.T, "conversation")
}

// In the simulation, some agents have the same first message, requests fail, histories are edited or shortened, and
// precept restarts.
func TestEachConversationHasOneSession(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sim := &simulation{T: t, now: testStart, stored: map[session.EchoKey][]session.ID{}}
		sim.threader = session.NewThreader(sim.entropy)
		idle := func(x *dialogue) bool { return x.replies > 0 && x.inFlight == nil }
		checkContinues := func(x *dialogue, event string) {
			if x == nil {
				return
			}
			if r := sim.resolve(x); r.ID != x.id || r.New || len(r.EqualSessions) > 0 {
				t.Fatalf("%s: got session %s, found by %s (New = %v, %d EqualSessions), want session %s (New = false, 0 EqualSessions); history: %s", event, r.ID, r.Method, r.New, len(r.EqualSessions), x.id, x.history)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) { sim.now = sim.now.Add(time.Second) },
			"begin": func(t *rapid.T) {
				x := &dialogue{task: rapid.SampledFrom([]string{"build it", "test it"}).Draw(t, "task")}
				x.history = []string{userMessage(x.task)}
				sim.dialogues = append(sim.dialogues, x)
				r := sim.resolve(x)
				if x.id = r.ID; !r.New || slices.ContainsFunc(sim.dialogues, func(y *dialogue) bool { return y != x && y.id == r.ID }) {
					t.Fatalf("first request: got session %s (found by %s), want a new session", r.ID, r.Method)
				}
			},
			"answer": func(t *rapid.T) {
				if x := sim.drawDialogue(func(x *dialogue) bool { return x.inFlight != nil }); x != nil {
					sim.answer(x, rapid.Bool().Draw(t, "text"))
				}
			},
			"continue": func(*rapid.T) { checkContinues(sim.drawDialogue(idle), "next turn") },
			"fail and retry": func(*rapid.T) {
				if x := sim.drawDialogue(func(x *dialogue) bool { return x.inFlight != nil && x.replies > 0 }); x != nil {
					sim.threader.RecordEnd(*x.inFlight, false, sim.now)
					checkContinues(x, "retry")
				}
			},
			"edit": func(t *rapid.T) {
				x := sim.drawDialogue(func(x *dialogue) bool { return idle(x) && len(x.history) > 4 })
				if x == nil {
					return
				}
				var ends []int // indices after a result or an answer, where the history can be cut
				for i, m := range x.history {
					if i > 1 && (strings.Contains(m, `"tool_call_id"`) || strings.Contains(m, "this is answer")) {
						ends = append(ends, i+1)
					}
				}
				if len(ends) > 0 {
					x.history = append(x.history[:rapid.SampledFrom(ends).Draw(t, "end")], userMessage("do it otherwise"))
					checkContinues(x, "edited history")
				}
			},
			"shorten": func(*rapid.T) {
				if x := sim.drawDialogue(func(x *dialogue) bool { return idle(x) && len(x.history) > 4 }); x != nil {
					x.history = append([]string{userMessage("what was done so far: a lot")}, x.history[len(x.history)-2:]...)
					checkContinues(x, "shortened history")
				}
			},
			"restart": func(t *rapid.T) {
				if rapid.IntRange(0, 3).Draw(t, "skip") > 0 { // restart one time in four
					return
				}
				sim.threader = session.NewThreader(sim.entropy)
				sim.dialogues = slices.DeleteFunc(sim.dialogues, func(x *dialogue) bool { return x.inFlight != nil })
			},
		})
	})
}
