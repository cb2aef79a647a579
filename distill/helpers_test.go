package distill_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"precept/distill"
	"precept/inject/bank"
	"precept/inject/lesson"
	"precept/internal/sample"
	"precept/internal/session"
)

// event is a message, or a tool call with its result.
type event struct {
	message            string // "role: text"; "" for a call
	tool, args, result string
}

func user(text string) event               { return event{message: "user: " + text} }
func agent(text string) event              { return event{message: "assistant: " + text} }
func call(tool, args, result string) event { return event{tool: tool, args: args, result: result} }

// fixture holds a store and a bank in memory, and a clock that moves only when a test moves it.
type fixture struct {
	*testing.T
	store interface {
		distill.Source
		distill.Notes
		Write(ctx context.Context, b session.Batch) error
	}
	storage           bank.Storage
	bank              *bank.Bank
	now               time.Time
	conversationCount int // number of stored conversations

	agent, run, caller string // for the sessions added next
}

func newFixture(t *testing.T, limits ...bank.Limits) *fixture {
	t.Helper()
	f := &fixture{T: t, store: newMemoryStore(), now: time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)}
	f.openBank(&memoryStorage{texts: map[string][]byte{}}, append(limits, bank.Limits{})[0])
	return f
}

func (f *fixture) openBank(storage bank.Storage, limits bank.Limits) {
	f.storage = storage
	f.bank = bank.New(bank.Options{Storage: storage, Now: f.clock, Limits: limits, Checks: lesson.Checker{Secrets: func(s string) []string {
		if strings.Contains(s, "@") && strings.Contains(s, ".example") {
			return []string{"email"}
		}
		return nil
	}}})
}

func (f *fixture) clock() time.Time { return f.now }

// addSession stores a conversation. A second conversation with the same name replaces or continues the first.
func (f *fixture) addSession(name string, events ...event) session.ID {
	f.Helper()
	return f.addTenantSession("default", name, nil, events...)
}

func (f *fixture) addTenantSession(tenant, name string, lessons []sample.Lesson, events ...event) session.ID {
	f.Helper()
	var id session.ID
	copy(id[:], fmt.Sprintf("%-16s", name))
	f.conversationCount++
	x := sample.Exchange{
		ID: fmt.Sprintf("0000%04d-0000-4000-8000-%012x", len(events), id[:6]), Tenant: tenant, Agent: cmp.Or(f.agent, "coder"), Run: f.run, Caller: f.caller, Session: id.String(), SessionName: name, Turn: 1, At: f.now, Dialect: "chat",
		Status: 200, Outcome: sample.Complete, Lessons: lessons,
	}
	for i, e := range events {
		role, text, spoken := strings.Cut(e.message, ": ")
		if spoken {
			x.New = append(x.New, raw(map[string]any{"role": role, "content": text}))
			continue
		}
		callID := fmt.Sprint("c", i)
		x.New = append(x.New,
			raw(map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{"id": callID, "type": "function", "function": map[string]any{"name": e.tool, "arguments": e.args}}}}),
			raw(map[string]any{"role": "tool", "tool_call_id": callID, "content": e.result}))
	}
	x.Reply.Text = "Done."
	seen := f.now.Add(time.Duration(f.conversationCount) * time.Second)
	row := session.Row{Tenant: tenant, ID: id, Started: f.now, Seen: seen, Closed: true, Data: []byte("{}")}
	if err := f.store.Write(f.Context(), session.Batch{Rows: []session.Row{row}, Exchanges: []sample.Exchange{x}}); err != nil {
		f.Fatal(err)
	}
	return id
}

func raw(v any) json.RawMessage {
	data, _ := json.Marshal(v)
	return data
}

// runDistiller runs the distiller once. Each function in change edits the options first.
func (f *fixture) runDistiller(change ...func(*distill.Options)) distill.Summary {
	f.Helper()
	sum, err := f.tryRunDistiller(f.Context(), change...)
	if err != nil {
		f.Fatal(err)
	}
	return sum
}

func (f *fixture) tryRunDistiller(ctx context.Context, change ...func(*distill.Options)) (distill.Summary, error) {
	o := distill.Options{Source: f.store, Notes: f.store, Bank: f.bank, Now: f.clock, Owner: "test", OnFailure: func(name string, err error) {
		if strings.HasPrefix(err.Error(), "panic: ") { // the distiller recovers from a panic, but the test must fail
			f.Errorf("reading %s: %v", name, err)
		}
	}}
	for _, c := range change {
		c(&o)
	}
	return distill.New(o).RunOnce(ctx)
}

func (f *fixture) slugs() []string {
	f.Helper()
	var out []string
	for _, l := range f.lessons() {
		out = append(out, l.Slug)
	}
	slices.Sort(out)
	return out
}

func (f *fixture) lessons() []*lesson.Lesson {
	f.Helper()
	book, problems, err := f.bank.List(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	if len(problems) > 0 {
		f.Fatalf("List: problems = %+v, want none", problems)
	}
	return book.Lessons()
}

func (f *fixture) lessonBySlug(slug string) *lesson.Lesson {
	f.Helper()
	for _, l := range f.lessons() {
		if l.Slug == slug {
			return l
		}
	}
	f.Fatalf("lesson %s not found among %v", slug, f.slugs())
	return nil
}

func (f *fixture) log() string {
	f.Helper()
	events, err := f.storage.Tail(f.Context(), 1000)
	if err != nil {
		f.Fatal(err)
	}
	return fmt.Sprint(events)
}

// checkEqual fails the test if two values are printed differently. The failure message begins with name.
func checkEqual(t testing.TB, name string, got, want any) {
	t.Helper()
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("%s:\ngot  %+v\nwant %+v", name, got, want)
	}
}
