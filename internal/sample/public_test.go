package sample_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"precept/internal/sample"
)

type drawnTurn struct {
	userMessage string   // "" after calls
	results     []string // for the previous turn's calls
	text        string   // reply text
	calls       []sample.Call
}

func drawTurns() *rapid.Generator[[]drawnTurn] {
	return rapid.Custom(func(t *rapid.T) []drawnTurn {
		words := rapid.SampledFrom([]string{"list the files", "now push", "<b>what</b> is \"it\"?", "Zürich, 東京\nand more"})
		texts := rapid.SampledFrom([]string{"", "I look.", "Done: 3 files\n\tand a tab"})
		results := rapid.SampledFrom([]string{"error: no such file", "a.go\nb.go", "{\"ok\":true}", ""})
		var turns []drawnTurn
		var open []sample.Call
		for i := range rapid.IntRange(1, 6).Draw(t, "turns") {
			var s drawnTurn
			for range open {
				s.results = append(s.results, results.Draw(t, "result"))
			}
			if len(open) == 0 {
				s.userMessage = words.Draw(t, "words")
			}
			open = nil
			s.text = texts.Draw(t, "text")
			for n := range rapid.IntRange(0, 2).Draw(t, "calls") {
				open = append(open, sample.Call{
					ID: fmt.Sprintf("c%d_%d", i, n), Name: rapid.SampledFrom([]string{"bash", "read"}).Draw(t, "tool"),
					Args: rapid.SampledFrom([]string{`{"p":"a"}`, `{"p":"b","n":1.50}`}).Draw(t, "args"),
				})
			}
			s.calls = open
			turns = append(turns, s)
		}
		return turns
	})
}

// newItems returns the previous reply's items, and then the new input.
func newItems(dialect string, previous *drawnTurn, turn *drawnTurn) (out []json.RawMessage) {
	add := func(v any) {
		raw, _ := json.Marshal(v)
		out = append(out, raw)
	}
	type obj = map[string]any
	switch dialect {
	case "chat":
		if previous != nil {
			repeatedReply := obj{"role": "assistant", "content": previous.text}
			var list []obj
			for _, c := range previous.calls {
				list = append(list, obj{"id": c.ID, "type": "function", "function": obj{"name": c.Name, "arguments": c.Args}})
			}
			if list != nil {
				repeatedReply["tool_calls"] = list
			}
			add(repeatedReply)
			for i, r := range turn.results {
				add(obj{"role": "tool", "tool_call_id": previous.calls[i].ID, "content": r})
			}
		}
		if turn.userMessage != "" {
			add(obj{"role": "user", "content": turn.userMessage})
		}
	case "responses":
		if previous != nil {
			if previous.text != "" {
				add(obj{"type": "message", "role": "assistant", "content": []obj{{"type": "output_text", "text": previous.text}}})
			}
			for _, c := range previous.calls {
				add(obj{"type": "function_call", "call_id": c.ID, "name": c.Name, "arguments": c.Args})
			}
			for i, r := range turn.results {
				add(obj{"type": "function_call_output", "call_id": previous.calls[i].ID, "output": r})
			}
		}
		if turn.userMessage != "" {
			add(obj{"role": "user", "content": []obj{{"type": "input_text", "text": turn.userMessage}}})
		}
	case "messages":
		if previous != nil {
			var blocks, decoded []obj
			if previous.text != "" {
				blocks = append(blocks, obj{"type": "text", "text": previous.text})
			}
			for i, c := range previous.calls {
				blocks = append(blocks, obj{"type": "tool_use", "id": c.ID, "name": c.Name, "input": json.RawMessage(c.Args)})
				decoded = append(decoded, obj{"type": "tool_result", "tool_use_id": c.ID, "content": []obj{{"type": "text", "text": turn.results[i]}}})
			}
			add(obj{"role": "assistant", "content": blocks})
			if decoded != nil {
				add(obj{"role": "user", "content": decoded})
			}
		}
		if turn.userMessage != "" {
			add(obj{"role": "user", "content": []obj{{"type": "text", "text": turn.userMessage}}})
		}
	}
	return out
}

func storedSession(dialect string, turns []drawnTurn) sample.Session {
	s := sample.Session{Tenant: "default", Agent: "coder", Name: "ci-42", ID: "00ff", IsFailure: func(_, _, text string, _ int8) bool {
		return strings.HasPrefix(text, "error")
	}}
	at, from := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), 0
	for i := range turns {
		var before *drawnTurn
		if i > 0 {
			before = &turns[i-1]
		}
		list := newItems(dialect, before, &turns[i])
		s.Exchanges = append(s.Exchanges, sample.Exchange{
			ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i), Turn: i + 1, At: at.Add(time.Duration(i) * time.Minute),
			Dialect: dialect, Model: "m", Status: 200, Outcome: sample.Complete, New: list, FirstNew: from,
			Reply: sample.Reply{Text: turns[i].text, Calls: turns[i].calls, InputTokens: 10, OutputTokens: 2},
		})
		from += len(list)
	}
	return s
}

func TestSamplesAreSameInAllDialects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		turns := drawTurns().Draw(t, "turns")
		type results struct {
			samples []sample.Sample
			events  []sample.Event
			chat    []sample.ChatMessage
		}
		var first results
		for i, dialect := range []string{"chat", "responses", "messages"} {
			s := storedSession(dialect, turns)
			got := results{samples: sample.Build(s), events: s.Events(), chat: s.Conversation()}
			for n := range got.samples {
				if got.samples[n].State["dialect"] != dialect {
					t.Fatalf("got dialect %v, want %v", got.samples[n].State["dialect"], dialect)
				}
				got.samples[n].State["dialect"] = ""
				if err := validateSample(got.samples[n]); err != nil {
					t.Fatalf("schema check in dialect %s: %v", dialect, err)
				}
			}
			if i == 0 {
				first = got
			} else if !reflect.DeepEqual(got, first) {
				t.Fatalf("dialect %s: got\n%+v\nwant, as in the chat dialect,\n%+v", dialect, got, first)
			}
		}
		want := 0
		for i := range turns {
			want += len(turns[i].calls)
		}
		calls := 0
		for _, e := range first.events {
			if e.Role == sample.EventCall {
				calls++
			}
		}
		if calls != want {
			t.Fatalf("got %d call events, want %d", calls, want)
		}
	})
}

func TestDecodedSessionGivesSameSamples(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := storedSession(rapid.SampledFrom([]string{"chat", "responses", "messages"}).Draw(t, "dialect"), drawTurns().Draw(t, "turns"))
		want := sample.Build(s)
		for i := range s.Exchanges {
			decoded, err := s.Exchanges[i].Encode().Decode()
			if err != nil {
				t.Fatal(err)
			}
			s.Exchanges[i] = decoded
		}
		if got := sample.Build(s); !reflect.DeepEqual(got, want) {
			t.Fatalf("decoded session: got samples\n%+v\nwant\n%+v", got, want)
		}
	})
}

func TestReaderReturnsEachCallAndResultOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		turns := drawTurns().Draw(t, "turns")
		s := storedSession(rapid.SampledFrom([]string{"chat", "responses", "messages"}).Draw(t, "dialect"), turns)
		r := sample.NewMessageReader()
		for i := range s.Exchanges {
			results, text := 0, ""
			for _, event := range r.Request(&s.Exchanges[i]) {
				switch event.Role {
				case sample.MessageResult:
					if event.Call != turns[i-1].calls[results] || event.Text != turns[i].results[results] {
						t.Fatalf("turn %d, result %d: got %+v, want call %+v, result %q", i, results, event, turns[i-1].calls[results], turns[i].results[results])
					}
					results++
				case sample.EventUser:
					text += event.UserText
				default:
					t.Fatalf("turn %d: Request returned %+v, want only results and user messages", i, event)
				}
			}
			if results != len(turns[i].results) || text != turns[i].userMessage {
				t.Fatalf("turn %d: got %d results, user text %q, want %d results, user text %q", i, results, text, len(turns[i].results), turns[i].userMessage)
			}
			if got := len(r.Reply(&s.Exchanges[i])); got != len(turns[i].calls)+min(1, len(turns[i].text)) {
				t.Fatalf("turn %d: Reply returned %d messages, want %d", i, got, len(turns[i].calls)+min(1, len(turns[i].text)))
			}
		}
	})
}
