package inject

import (
	"fmt"
	"strings"
	"testing"

	"precept/bandit/trial"
	"precept/internal/session"
	"precept/internal/wire"
)

const loopMark = "[LOOP DETECTED]"

// precept inserts the first warning after the second identical failure, and the second warning two failures later.
func TestLoopIsCountedOnceWithTwoWarnings(t *testing.T) {
	for _, form := range forms() {
		t.Run(string(form), func(t *testing.T) {
			s := newTestSession(t, form, injectAll(), newBook(), "s")
			s.agent.addUserMessage("build")
			s.send()
			for i := range 5 {
				s.endTurn()
				s.addFailedCall("make", "it")
				p := s.send()
				s.restart()
				if (p.Loops == 1) != (i == 1) {
					t.Errorf("failure %d: plan = %+v, want a new loop only at the second failure", i+1, p)
				}
				if got, want := strings.Count(s.upstream(), loopMark), []int{0, 1, 1, 2, 2}[i]; got != want {
					t.Errorf("failure %d: the request has %d warnings, want %d", i+1, got, want)
				}
			}
			if s.rec.Lessons.Loops.Count != 1 || len(s.rec.Assignment.Picks) != 1 || s.rec.Assignment.Picks[0].Arm != trial.LoopArm {
				t.Errorf("loops = %+v, assignment = %+v, want one loop and one pick for arm %q",
					s.rec.Lessons.Loops, s.rec.Assignment, trial.LoopArm)
			}
		})
	}
}

func TestRetriedLoopIsCountedOnce(t *testing.T) {
	s := newTestSession(t, claude, injectAll(), newBook(), "s")
	s.agent.addUserMessage("build")
	s.send()
	for range 2 {
		s.endTurn()
		s.addFailedCall("make", "it")
		s.send()
	}
	for range 3 {
		if p := s.send(); p.Loops != 0 || len(p.Edits) != 1 {
			t.Errorf("retry plan = %+v, want no new loop and only the earlier warning", p)
		}
	}
}

func TestLoopWarningIsPlacedAboveLessons(t *testing.T) {
	for _, form := range forms() {
		s := newTestSession(t, form, injectAll(), newBook(), "s")
		s.agent.addUserMessage("build")
		s.send()
		s.endTurn()
		s.addFailedCall("make", "omega")
		s.send()
		s.endTurn()
		s.book = newBook(activeLesson("fix", "omega", "Look."))
		s.addFailedCall("make", "omega")
		p := s.send()
		if len(p.Edits) != 2 || p.Edits[0].Item != p.Edits[1].Item || !strings.HasPrefix(p.Edits[0].Text, loopMark) {
			t.Errorf("%s: edits = %+v, want two at one item, the first with prefix %q", form, p.Edits, loopMark)
			continue
		}
		s.endTurn()
		s.restart()
		s.addSuccessfulCall("ls")
		retry := s.send()
		if fmt.Sprint(retry.Edits) != fmt.Sprint(p.Edits) {
			t.Errorf("%s: next turn's edits = %+v, want %+v", form, retry.Edits, p.Edits)
		}
	}
}

// A loop counts even if precept withholds the warning.
func TestHoldoutAndControlWithholdLoopWarning(t *testing.T) {
	for _, tc := range []struct {
		name             string
		epsilon, control float64
		state            string
	}{{"withheld", 1, 0, "withheld"}, {"control", 0, 1, "control"}} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := injectAll()
			cfg.Bandit.Epsilon, cfg.Bandit.Control = tc.epsilon, tc.control
			s := newTestSession(t, plainChat, cfg, newBook(), "s")
			s.agent.addUserMessage("build")
			s.send()
			for i, command := range []string{"make", "make", "make", "make", "test", "test"} {
				s.endTurn()
				s.addFailedCall(command, "it")
				p := s.send()
				if len(p.Edits) != 0 || (p.Loops == 1) != (i == 1 || i == 5) {
					t.Errorf("failure %d: plan = %+v, want no edit, and a new loop only at each command's second failure", i+1, p)
				}
				if i == 1 && (len(p.Lessons) != 1 || p.Lessons[0].State != tc.state) {
					t.Errorf("lessons at the second failure = %+v, want one in state %q", p.Lessons, tc.state)
				}
				if i != 1 && len(p.Lessons) != 0 {
					t.Errorf("failure %d: lessons = %+v, want none, because the assignment at the first loop applies to the whole session", i+1, p.Lessons)
				}
			}
		})
	}
}

// A delta request contains only new items, so the session keeps the detector's state.
func TestLoopIsFoundAcrossDeltaRequests(t *testing.T) {
	s := newTestSession(t, responses, injectAll(), newBook(), "s")
	s.plan([]byte(`{"model":"m","input":"build"}`))
	for i := range 4 {
		id := fmt.Sprint("call_", i)
		s.rec.AddReply(&wire.Reply{Complete: true, Calls: []wire.Call{{ID: id, Name: "bash", Args: `{"command":"make"}`}}})
		s.restart()
		body := []byte(`{"model":"m","previous_response_id":"resp_` + id + `","input":[{"type":"function_call_output","call_id":"` + id + `","output":"Error: no rule\nExit code 2"}]}`)
		p := s.plan(body)
		if strings.Contains(s.upstream(), loopMark) != (i == 1 || i == 3) {
			t.Errorf("failure %d: plan = %+v, want a warning at failures 2 and 4", i+1, p)
		}
		if retry := s.plan(body); retry.Kind != session.Retry || retry.Loops != 0 || fmt.Sprint(retry.Edits) != fmt.Sprint(p.Edits) {
			t.Errorf("failure %d retried: plan = %+v, want edits %v", i+1, retry, p.Edits)
		}
	}
}

func TestLoopWarningNamesFailingParallelCall(t *testing.T) {
	s := newTestSession(t, plainChat, injectAll(), newBook(), "s")
	s.agent.addUserMessage("build")
	s.send()
	for range 2 {
		s.endTurn()
		bad, good := s.agent.addCall("make"), s.agent.addCall("cat x")
		s.agent.addResult(bad, "Error: it failed\nExit code 2", true)
		s.agent.addResult(good, "text", false)
		s.send()
	}
	var warned []string
	for _, item := range s.sent {
		if strings.Contains(item, loopMark) {
			warned = append(warned, item)
		}
	}
	if len(warned) != 1 || !strings.Contains(warned[0], `"tool_call_id":"call_3"`) || !strings.Contains(warned[0], "make") {
		t.Errorf("messages with a warning = %v, want only the result of call_3, with a warning that names make", warned)
	}
}
