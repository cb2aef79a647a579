package sample_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"

	"precept/internal/sample"
)

var update = flag.Bool("update", false, "write the golden files") //nolint:gochecknoglobals // a test flag

// everyEventScript returns a script with a call, two text replies, a correction and an approval.
func everyEventScript() *script {
	s := newScript()
	s.session.IsFailure = isFailure
	s.addTurn(callReply("c1", "bash", `{"cmd":"ls <dir>"}`), messageJSON("system", "You are an agent."), messageJSON("user", "List the files"))
	s.addTurn(sample.Reply{Text: "a.go"}, resultJSON("c1", "a.go\nb.go"))
	s.addTurn(sample.Reply{Text: "a.go and b.go"}, messageJSON("user", "Not all"))
	s.session.Ratings = []sample.Rating{
		{Source: "user", Type: "correction", Turn: 2, Correction: json.RawMessage(`"a.go and b.go"`)},
		{Source: "user", Type: "approval", Turn: 3},
	}
	return s
}

func TestExportGolden(t *testing.T) {
	c := everyEventScript()
	reward := 0.5
	tests := []struct {
		name  string
		write func(x *sample.Exporter) error
		lines int
	}{
		{"mplp", func(x *sample.Exporter) error {
			for _, s := range sample.Build(c.session) {
				if err := x.WriteLine(&s); err != nil {
					return err
				}
			}
			return nil
		}, 2},
		{"openai", func(x *sample.Exporter) error { return x.WriteChat(&c.session) }, 1},
		{"preference", func(x *sample.Exporter) error { return x.WritePreferences(&c.session) }, 1},
		{"experiment", func(x *sample.Exporter) error {
			if err := x.WriteLine(&sample.Trial{Session: "s", Coin: "holdout", Arm: "npm@1", Slug: "npm", Assigned: "withheld", Propensity: 0.19, Eps: 0.2, Center: 0.5, Closed: true}); err != nil {
				return err
			}
			return x.WriteLine(&sample.Trial{Session: "s", Coin: "holdout", Arm: "b@1", Slug: "b", Assigned: "injected", Propensity: 0.76, Eps: 0.2, Center: 0.45, Outcome: &reward, Tier: 1, Closed: true, At: "2026-01-02T03:04:05Z"})
		}, 2},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			x := sample.NewExporter(&out)
			if err := tc.write(x); err != nil {
				t.Fatal(err)
			}
			if err := x.Flush(); err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(out.Bytes(), []byte("\n")); n != tc.lines {
				t.Errorf("got %d lines, want %d", n, tc.lines)
			}
			file := "testdata/export/" + tc.name + ".jsonl"
			if *update {
				if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out.Bytes(), want) {
				t.Errorf("got export\n%s\nwant %s\n%s", out.Bytes(), file, want)
			}
		})
	}
}

// formatConversation formats each message as role, content, "+" and call ids, and an answered call's id.
func formatConversation(list []sample.ChatMessage) string {
	var parts []string
	for _, m := range list {
		s := m.Role + ":"
		if m.Content != nil {
			s += *m.Content
		}
		for _, c := range m.ToolCalls {
			s += "+" + c.ID
		}
		parts = append(parts, s+m.ToolCallID)
	}
	return strings.Join(parts, " | ")
}

func TestConversationHasEachMessageOnce(t *testing.T) {
	const full = "system:You are an agent. | user:List the files | assistant:+c1 | tool:a.go\nb.goc1 | assistant:a.go | user:Not all | assistant:a.go and b.go"
	c := everyEventScript()
	if got := formatConversation(c.session.Conversation()); got != full {
		t.Errorf("Conversation:\n got %s\nwant %s", got, full)
	}

	t.Run("history kept by the provider", func(t *testing.T) {
		s := newScript()
		s.addTurn(callReply("c1", "bash", "ls"), messageJSON("user", "go"))
		s.repeatedReply, s.sentItems = nil, 0 // the next request has only new items
		s.addTurn(sample.Reply{Text: "done"}, `{"type":"function_call_output","call_id":"c1","output":"a.go"}`).Dialect = "responses"
		if got := formatConversation(s.session.Conversation()); got != "user:go | assistant:+c1 | tool:a.goc1 | assistant:done" {
			t.Errorf(`got conversation %q, want "user:go | assistant:+c1 | tool:a.goc1 | assistant:done"`, got)
		}
	})
	t.Run("parallel calls as items", func(t *testing.T) {
		s := newScript()
		r := callReply("c1", "bash", "ls")
		r.Calls = append(r.Calls, sample.Call{ID: "c2", Name: "bash", Args: "pwd"})
		s.addTurn(r, messageJSON("user", "go"))
		s.repeatedReply = []string{`{"type":"reasoning"}`, `{"type":"function_call","call_id":"c1","name":"bash","arguments":"ls"}`, `{"type":"function_call","call_id":"c2","name":"bash","arguments":"pwd"}`}
		s.addTurn(sample.Reply{Text: "done"}, `{"type":"function_call_output","call_id":"c1","output":"x"}`, `{"type":"function_call_output","call_id":"c2","output":"y"}`).Dialect = "responses"
		if got := formatConversation(s.session.Conversation()); got != "user:go | assistant:+c1+c2 | tool:xc1 | tool:yc2 | assistant:done" {
			t.Errorf(`got conversation %q, want "user:go | assistant:+c1+c2 | tool:xc1 | tool:yc2 | assistant:done"`, got)
		}
	})
	t.Run("edited history", func(t *testing.T) {
		s := newScript()
		s.addTurn(sample.Reply{Text: "a"}, messageJSON("user", "one"))
		s.addTurn(sample.Reply{Text: "b"}, messageJSON("user", "two"))
		s.repeatedReply, s.sentItems = nil, 2 // the agent replaces the second question
		s.addTurn(sample.Reply{Text: "c"}, messageJSON("user", "two, again"))
		if got := formatConversation(s.session.Conversation()); got != "user:one | assistant:a | user:two, again | assistant:c" {
			t.Errorf(`got conversation %q, want "user:one | assistant:a | user:two, again | assistant:c"`, got)
		}
	})
	t.Run("compacted history", func(t *testing.T) {
		s := newScript()
		s.addTurn(sample.Reply{Text: "a"}, messageJSON("system", "s"), messageJSON("user", "one"))
		s.repeatedReply, s.sentItems = nil, 0 // the agent replaces all items with a summary
		s.addTurn(sample.Reply{Text: "b"}, messageJSON("system", "s"), messageJSON("user", "summary"), messageJSON("user", "two"))
		if got := formatConversation(s.session.Conversation()); got != "system:s | user:summary | user:two | assistant:b" {
			t.Errorf(`got conversation %q, want "system:s | user:summary | user:two | assistant:b"`, got)
		}
	})
	if got := (&sample.Session{}).Conversation(); got != nil {
		t.Errorf("empty session: Conversation = %v, want none", got)
	}
}

func TestChatExportEndsWithCompleteReply(t *testing.T) {
	for name, change := range map[string]func(second, third *sample.Exchange){
		"failed and incomplete": func(second, third *sample.Exchange) { second.Outcome, third.Outcome = sample.Failed, sample.Incomplete },
		"aborted":               func(second, third *sample.Exchange) { second.Outcome, third.Outcome = sample.Aborted, sample.Aborted },
		"truncated":             func(second, third *sample.Exchange) { second.Truncated, third.Truncated = true, true },
	} {
		s := newScript()
		for _, text := range []string{"one", "two", "three"} {
			s.addTurn(sample.Reply{Text: "answer to " + text}, messageJSON("user", text))
		}
		change(&s.session.Exchanges[1], &s.session.Exchanges[2])
		var out bytes.Buffer
		lines := sample.NewExporter(&out)
		if err := errors.Join(lines.WriteChat(&s.session), lines.Flush()); err != nil {
			t.Fatalf("%s: WriteChat: %v", name, err)
		}
		if got := out.String(); !strings.Contains(got, "answer to one") || strings.Contains(got, "answer to t") {
			t.Errorf("%s: got line %q, want it to end with %q", name, got, "answer to one")
		}
	}
}

func TestChatExportOmitsSessionsWithoutReply(t *testing.T) {
	s := newScript()
	s.addTurn(sample.Reply{Error: "boom"}, messageJSON("user", "go")).Outcome = sample.Failed
	var out bytes.Buffer
	x := sample.NewExporter(&out)
	if err := x.WriteChat(&s.session); err != nil || x.Flush() != nil || out.Len() != 0 {
		t.Errorf("WriteChat: err = %v, output %q, want no error and no output", err, out.String())
	}
}

func TestUserRatingsBecomePreferences(t *testing.T) {
	s := newScript()
	s.addTurn(sample.Reply{Text: "bad"}, messageJSON("user", "one"))
	s.addTurn(sample.Reply{Text: "good"}, messageJSON("user", "one"))
	s.addTurn(sample.Reply{Text: "other"}, messageJSON("user", "two"))
	s.session.Ratings = []sample.Rating{
		{Source: "user", Type: "rejection", Turn: 1},
		{Source: "user", Type: "approval", Turn: 2},
		{Source: "system", Type: "rejection", Turn: 3},                                    // not by a user
		{Source: "user", Type: "correction", Turn: 9, Correction: json.RawMessage(`"x"`)}, // no such turn
		{Source: "user", Type: "correction", Turn: 3},                                     // no answer to correct
		{Source: "user", Type: "correction", Correction: json.RawMessage(`{"content":"a message"}`)},
		{Source: "user", Type: "correction", Turn: 3, Correction: json.RawMessage(`{"any":["thing"]}`)}, // neither text nor message
	}
	got := s.session.Preferences()
	if len(got) != 3 {
		t.Fatalf("got %d preferences, want 3", len(got))
	}
	want := []string{
		"user:one => assistant:good > assistant:bad",
		"user:one | assistant:bad | user:one | assistant:good | user:two => assistant:a message > assistant:other",
		"user:one | assistant:bad | user:one | assistant:good | user:two => assistant:{\"any\":[\"thing\"]} > assistant:other",
	}
	for i, p := range got {
		if s := formatConversation(p.Prompt) + " => " + formatConversation(p.Chosen) + " > " + formatConversation(p.Rejected); s != want[i] {
			t.Errorf("preference %d:\n got %s\nwant %s", i, s, want[i])
		}
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestExporterKeepsFirstError(t *testing.T) {
	x := sample.NewExporter(brokenWriter{})
	big := &sample.Sample{Input: map[string]any{"x": strings.Repeat("y", 1<<17)}}
	if err := x.WriteLine(big); err == nil || !strings.Contains(err.Error(), "export line 1: disk full") {
		t.Errorf(`WriteLine: err = %v, want "export line 1: disk full"`, err)
	}
	if err := x.WriteChat(&everyEventScript().session); err == nil {
		t.Error("WriteChat after a failed line: err = nil, want an error")
	}
	if err := x.Flush(); err == nil {
		t.Error("Flush after a failed line: err = nil, want an error")
	}
}

// For newer models, Codex sends the tools in a list item, grouped into namespaces.
func TestToolsInItemsAreReadAsTools(t *testing.T) {
	s := newScript()
	e := s.addTurn(sample.Reply{Text: "done"},
		`{"type":"additional_tools","role":"developer","tools":[{"type":"namespace","name":"functions","tools":[{"type":"custom","name":"exec","description":"Runs."},{"type":"function","name":"wait","parameters":{"type":"object"}}]}]}`,
		messageJSON("user", "List the files"))
	e.Dialect = "responses"
	var out bytes.Buffer
	x := sample.NewExporter(&out)
	if err := x.WriteChat(&s.session); err != nil {
		t.Fatal(err)
	}
	if err := x.Flush(); err != nil {
		t.Fatal(err)
	}
	want := `"tools":[{"type":"function","function":{"name":"exec","description":"Runs."}},{"type":"function","function":{"name":"wait","parameters":{"type":"object"}}}]`
	if !strings.Contains(out.String(), want) {
		t.Errorf("got export %s, want it to contain %s", out.String(), want)
	}
	shown := sample.NewMessageReader().Request(e)
	if len(shown) != 2 || shown[0].Role != sample.MessageTools || !strings.HasPrefix(shown[0].Text, "exec, wait\n") {
		t.Errorf("got messages %+v, want the tools exec and wait, then the user's words", shown)
	}
}
