package sample_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"precept/internal/sample"
)

func goldenSessions() map[string]sample.Session {
	return map[string]sample.Session{"work": workSession(), "talk": talkSession(), "nothing": unansweredSession()}
}

func workSession() sample.Session {
	s := newScript()
	s.session.IsFailure = isFailure
	reply := callReply("c1", "read", `{"path":"src/main.go"}`)
	reply.InputTokens, reply.CachedTokens, reply.OutputTokens = 900_000, 100_000, 2_000
	e := s.addTurn(reply, messageJSON("system", "be brief"), messageJSON("user", "fix the build of main.go"))
	e.Config, e.Run, e.LatencyMS = "cfg-1", "nightly", 700_000
	e.Lessons = []sample.Lesson{{Slug: "b", Arm: "b@1", State: "matched"}, {Slug: "a", Arm: "a@1", State: "withheld", Propensity: 0.9}}
	e = s.addTurn(callReply("c2", "read", `{"path":"cmd/main.go"}`), resultJSON("c1", "error: no src/main.go"))
	e.Lessons, e.Loops = []sample.Lesson{{Slug: "b", Arm: "b@1", State: "injected", Propensity: 0.8}, {Slug: "a", Arm: "a@1", State: "control"}}, 2
	for i := range 5 {
		s.addTurn(callReply(fmt.Sprintf("d%d", i), "bash", `{"command":"make"}`), resultJSON([]string{"c2", "d0", "d1", "d2", "d3"}[i], []string{"package main", "error 1", "error 2", "error 3", "error 4"}[i]))
	}
	e = s.addTurn(callReply("e1", "bash", `{"command":"make -k"}`), resultJSON("d4", "error 5"))
	e.Truncated, e.Reply.Choices = true, 3
	e = s.addTurn(sample.Reply{Text: "  It builds.  "}, resultJSON("e1", "ok"))
	e.LatencyMS = 1500.5
	e = s.addTurn(sample.Reply{Text: "You are welcome."}, messageJSON("user", "thanks"))
	e.Run, e.Config = "nightly", "cfg-3"
	at := s.now
	s.session.Ratings = []sample.Rating{
		{At: at, Source: "implicit", Type: "approval", Turn: 10},
		{At: at.Add(time.Second), Source: "system", Type: "score", Score: 0.5, Details: json.RawMessage(`{"exit":0}`)},
		{At: at.Add(2 * time.Second), Source: "user", Type: "correction", Score: 0.2, Comment: "too slow", Correction: json.RawMessage(`"It builds now."`), Turn: 9},
		{At: at, Source: "user", Type: "rejection", Turn: 9},
		{At: at.Add(3 * time.Second), Source: "system", Type: "rejection", Turn: 10},
	}
	return s.session
}

// talkSession returns a conversation without tool calls: replies that were incomplete, failed or aborted, two complete
// replies, and several ratings.
func talkSession() sample.Session {
	s := newScript()
	s.session.Name = ""
	e := s.addTurn(sample.Reply{Text: "Half an ans"}, messageJSON("user", "what is it?"))
	e.Outcome = sample.Incomplete
	e = s.addTurn(sample.Reply{Error: "overloaded"}, messageJSON("user", "and this?"))
	e.Outcome, e.Status = sample.Failed, 529
	e = s.addTurn(sample.Reply{}, messageJSON("user", "and that?"))
	e.Outcome, e.Status = sample.Aborted, 200
	s.addTurn(sample.Reply{Text: "That is that."}, messageJSON("user", "<system-reminder>x</system-reminder>"))
	s.addTurn(sample.Reply{Text: "Bye."}, messageJSON("user", strings.Repeat("bye ", 3000)))
	s.session.Ratings = []sample.Rating{
		{At: s.now, Source: "user", Type: "approval", Turn: 1},
		{At: s.now, Source: "user", Type: "score", Score: 0.4, Turn: 2},
		{At: s.now, Source: "user", Type: "score", Score: 0.3, Label: sample.Good, Turn: 3},
		{At: s.now, Source: "user", Type: "score", Score: 1.5, Turn: 4},
		{At: s.now, Source: "system", Type: "score", Score: 0.39},
	}
	return s.session
}

func unansweredSession() sample.Session {
	s := newScript()
	s.addTurn(sample.Reply{Calls: []sample.Call{{ID: "c1", Name: "read", Args: "{}"}, {ID: "c2", Name: "write", Args: "{}"}}}, messageJSON("system", "go"))
	return s.session
}

// Samples are stored and exported, so every release must build the same samples.
func TestGoldenSessionSamples(t *testing.T) {
	for name, s := range goldenSessions() {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			enc := json.NewEncoder(&got)
			enc.SetEscapeHTML(false)
			enc.SetIndent("", " ")
			for _, smp := range sample.Build(s) {
				if err := enc.Encode(smp); err != nil {
					t.Fatal(err)
				}
			}
			for _, e := range s.Events() {
				fmt.Fprintf(&got, "event %d %s %.60q %s %s %v %d\n", e.Turn, e.Role, e.Text, e.Call.ID, e.Call.Name, e.Answered, e.IsError)
			}
			reading := sample.NewMessageReader()
			for i := range s.Exchanges {
				for _, event := range append(reading.Request(&s.Exchanges[i]), reading.Reply(&s.Exchanges[i])...) {
					fmt.Fprintf(&got, "said %d %s %.60q %.60q %s %s\n", i+1, event.Role, event.Text, event.UserText, event.Call.ID, event.Call.Name)
				}
			}
			file := filepath.Join("testdata", "samples", name+".golden")
			if *update {
				if err := os.WriteFile(file, got.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file) //nolint:gosec // a test file of this package
			if err != nil || !bytes.Equal(want, got.Bytes()) {
				t.Errorf("samples differ from %s (error %v), got\n%s", file, err, got.Bytes())
			}
		})
	}
}
