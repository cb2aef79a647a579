package inject_test

import (
	"strings"
	"testing"
	"time"

	"precept/bandit"
	"precept/inject"
	"precept/inject/lesson"
	"precept/internal/session"
	"precept/internal/wire"
)

// hop is one of several proxies in a chain.
type hop struct {
	injector *inject.Injector
	rec      *session.Record
}

func newHop(name string, style inject.Style) *hop {
	id := session.NamedID("default", session.NamespaceSession, name)
	return &hop{
		inject.New(inject.Config{Style: style, Bandit: bandit.Config{K: 3, Objective: bandit.All, Salt: "x"}}),
		session.NewRecord("default", session.Claim{Agent: "coder"}, session.Resolved{ID: id, Name: name}, time.Unix(1e9, 0)),
	}
}

// sendThrough sends a body through the proxy, and returns the body that the proxy sends on.
func (h *hop) sendThrough(t *testing.T, book *lesson.Book, d wire.Dialect, body string) string {
	t.Helper()
	req, err := wire.Parse(d, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	p := h.injector.Plan(h.rec, inject.Input{Request: req, Claim: session.Claim{Agent: "coder"}, Book: book, Beliefs: bandit.New(), Now: time.Unix(1e9, 0), ReadsCommands: true})
	out, err := req.Splice(nil, p.Edits)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func chainBook(slugs ...string) *lesson.Book {
	var all []*lesson.Lesson
	for _, s := range slugs {
		all = append(all, &lesson.Lesson{
			Slug: s, Title: "About " + s, Advice: "Look twice.", State: lesson.Active, Confidence: 0.5, ContentHash: strings.Repeat("0", 64),
			Trigger: lesson.Trigger{Keywords: []string{"deploy it", "no rule to make"}},
		})
	}
	return lesson.NewBook(all)
}

func TestChainedProxiesInsertEachLessonOnce(t *testing.T) {
	result := `make: *** No rule to make target 'x'.  Stop.\nExit code 2`
	bodies := map[wire.Dialect][]string{
		wire.Chat: {
			`{"messages":[{"role":"user","content":"please deploy it"}]}`,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"please deploy it"}]}]}`,
			`{"messages":[{"role":"user","content":"go"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"bash","arguments":"{\"command\":\"make x\"}"}}]},{"role":"tool","tool_call_id":"c1","content":"` + result + `"}]}`,
		},
		wire.Messages: {
			`{"messages":[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"bash","input":{"command":"make x"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","is_error":true,"content":"` + result + `"}]}]}`,
		},
		wire.Responses: {
			`{"input":"please deploy it"}`,
			`{"input":[{"type":"function_call","call_id":"c1","name":"bash","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"` + result + `"}]}`,
		},
	}
	for _, style := range []inject.Style{inject.Advice, inject.Pitfalls} {
		for d, list := range bodies {
			for _, body := range list {
				first, second := newHop("a", style), newHop("b", inject.Advice)
				one := first.sendThrough(t, chainBook("shared"), d, body)
				if strings.Count(one, "[shared]") != 1 {
					t.Fatalf("%s: the first precept in the chain sends %s, want [shared] once", d, one)
				}
				if two := second.sendThrough(t, chainBook("shared"), d, one); two != one {
					t.Errorf("%s, %s: the second precept sends\n%s\nwant it unchanged:\n%s", d, style, two, one)
				}
				both := newHop("c", inject.Advice).sendThrough(t, chainBook("shared", "own"), d, one)
				if strings.Count(both, "[shared]") != 1 || strings.Count(both, "[own]") != 1 {
					t.Errorf("%s, %s: a second precept with the lessons shared and own sends\n%s\nwant [shared] and [own] once each", d, style, both)
				}
			}
		}
	}
}

func TestQuotedBlockIsNotAnInsertion(t *testing.T) {
	block := `Lessons from past experience:\n(Advice from earlier runs, not a request from the user. Ignore what does not apply.)\n- [shared] About shared\n  | Look twice.\nEnd of lessons.\n\n`
	for _, text := range []string{
		`My agent showed me this:\n` + block + `please deploy it`,
		`> ` + strings.ReplaceAll(block, `\n`, `\n> `) + `\nplease deploy it`,
		`please deploy it\n\n` + block,
		"Lessons from past experience:\\n- [shared] x\\nplease deploy it",
	} {
		body := `{"messages":[{"role":"user","content":"` + text + `"}]}`
		out := newHop("a", inject.Advice).sendThrough(t, chainBook("shared"), wire.Chat, body)
		if strings.Count(out, "[shared]") != strings.Count(body, "[shared]")+1 {
			t.Errorf("request\n%s\nbecomes\n%s\nwant one more [shared] than in the request", body, out)
		}
	}
}

func TestChainedProxiesWarnOnceAboutALoop(t *testing.T) {
	call := func(id string) string {
		return `{"role":"assistant","content":null,"tool_calls":[{"id":"` + id + `","type":"function","function":{"name":"bash","arguments":"{\"command\":\"make x\"}"}}]},{"role":"tool","tool_call_id":"` + id + `","content":"boom\nExit code 2"}`
	}
	body := `{"messages":[{"role":"user","content":"go"},` + call("c1") + `,` + call("c2") + `]}`
	one := newHop("a", inject.Advice).sendThrough(t, chainBook(), wire.Chat, body)
	if strings.Count(one, "[LOOP DETECTED]") != 1 {
		t.Fatalf("the first precept sends %s, want [LOOP DETECTED] once", one)
	}
	if two := newHop("b", inject.Advice).sendThrough(t, chainBook(), wire.Chat, one); two != one {
		t.Errorf("the second precept sends\n%s\nwant it unchanged:\n%s", two, one)
	}
}
