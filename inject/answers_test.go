package inject_test

import (
	"strings"
	"testing"

	"precept/bandit"
	"precept/inject"
	"precept/inject/lesson"
	"precept/inject/writ"
	"precept/internal/wire"
)

// newTurnRequests returns two requests of one conversation. The newest message is a user message in the first request,
// and a tool result in the second request.
func newTurnRequests(d wire.Dialect) (text, result string) {
	switch d {
	case wire.Messages:
		return `{"model":"m","messages":[{"role":"user","content":"deploy it"}]}`,
			`{"model":"m","messages":[{"role":"user","content":"deploy it"},{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"sh","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"done"}]}]}`
	case wire.Responses:
		return `{"model":"m","input":[{"role":"user","content":"deploy it"}]}`,
			`{"model":"m","input":[{"role":"user","content":"deploy it"},{"type":"function_call","call_id":"c1","name":"sh","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"done"}]}`
	default:
		return `{"model":"m","messages":[{"role":"user","content":"deploy it"}]}`,
			`{"model":"m","messages":[{"role":"user","content":"deploy it"},{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"sh","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"done"}]}`
	}
}

func escapeJSON(s string) string {
	return strings.NewReplacer("\n", `\n`, `"`, `\"`).Replace(s)
}

func TestCommandHintAndResultsAreShownOnce(t *testing.T) {
	for _, d := range []wire.Dialect{wire.Chat, wire.Responses, wire.Messages} {
		h := newHop("s", inject.Advice)
		h.injector = inject.New(inject.Config{AdvertiseCommands: true, Bandit: bandit.Config{K: 3, Objective: bandit.All, Salt: "x"}})
		text, result := newTurnRequests(d)
		first := h.sendThrough(t, lesson.NewBook(nil), d, text)
		if strings.Count(first, escapeJSON(writ.Advertisement)+"deploy it") != 1 {
			t.Errorf("%s: the request is\n%s\nwant the hint about commands once, before the user message", d, first)
		}
		h.rec.Mailbox.Answers = []string{"[one answer]\n", "[another]\n"}
		again := h.sendThrough(t, lesson.NewBook(nil), d, text) // a retry of the same turn
		if again != first || len(h.rec.Mailbox.Answers) != 2 {
			t.Errorf("%s: request for the retried first turn =\n%s\nwant\n%s\nwaiting answers: got %d, want 2", d, again, first, len(h.rec.Mailbox.Answers))
		}
		second := h.sendThrough(t, lesson.NewBook(nil), d, result)
		if strings.Count(second, escapeJSON(writ.Advertisement)+"deploy it") != 1 || strings.Count(second, escapeJSON("[one answer]\n[another]\n\n")+"done") != 1 || len(h.rec.Mailbox.Answers) > 0 {
			t.Errorf("%s: the second request is\n%s\nwant the hint once, both answers once before the result, and no waiting answer", d, second)
		}
		if third := h.sendThrough(t, lesson.NewBook(nil), d, result); third != second {
			t.Errorf("%s: request for the retried second turn =\n%s\nwant\n%s", d, third, second)
		}
	}
}

func TestSystemPromptIsSearchedForNamedAgents(t *testing.T) {
	const body = `{"model":"m","messages":[{"role":"system","content":"You deploy it."},{"role":"user","content":"begin"}]}`
	for pattern, searched := range map[string]bool{"": false, "*": true, "coder": true, "CO*": true, "code?": true, "writer": false, "[": false} {
		h := newHop("s", inject.Advice)
		h.injector = inject.New(inject.Config{SystemPromptAgents: []string{pattern}, Bandit: bandit.Config{K: 3, Objective: bandit.All, Salt: "x"}})
		got := h.sendThrough(t, chainBook("ask-first"), wire.Chat, body)
		if searched != strings.Contains(got, `"content":"Lessons from past experience:`) || !strings.Contains(got, `begin"}]}`) {
			t.Errorf("pattern %q: request = %s\nwant a block before the user message: %v", pattern, got, searched)
		}
		if searched == (got == body) {
			t.Errorf("pattern %q: request = %s\nwant a changed request: %v", pattern, got, searched)
		}
	}
}

func TestTokensAreAQuarterOfBytes(t *testing.T) {
	l := &lesson.Lesson{Slug: "ask-first", Title: "Ask first", Advice: strings.Repeat("Ask whoever knows. ", 60), State: lesson.Active}
	text := l.Text()
	for _, budget := range []int{0, 300, 100} {
		cfg := inject.Config{BudgetBytes: budget}
		block := cfg.Block(l, &text, nil)
		if shown, bytes := cfg.Present(l, &text, nil), len(inject.LessonLines(block, "ask-first")); block != "" && shown.Tokens != (bytes+3)/4 {
			t.Errorf("budget %d bytes: Tokens = %d, want a quarter of the lesson's %d bytes", budget, shown.Tokens, bytes)
		}
		if fits := budget != 100; fits != (block != "") || budget > 0 && len(block) > budget {
			t.Errorf("budget %d bytes: got a %d-byte block, want a block within the budget: %t", budget, len(block), fits)
		}
	}
}
