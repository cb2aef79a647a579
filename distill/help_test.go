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

// event is one event of a test session: a message, or a call of a tool with its result.
type event struct {
	say                string // "role: text" of a message, "" for a call
	tool, args, result string
}

func user(text string) event               { return event{say: "user: " + text} }
func agent(text string) event              { return event{say: "assistant: " + text} }
func call(tool, args, result string) event { return event{tool: tool, args: args, result: result} }

// bench holds a store, a bank and a clock for the distiller.
type bench struct {
	*testing.T
	store interface {
		distill.Source
		distill.Notes
		Write(ctx context.Context, b session.Batch) error
	}
	place bank.Place
	bank  *bank.Bank
	now   time.Time
	n     int // number of stored conversations

	agent, run, caller string // metadata of the stored sessions
}

func newBench(t *testing.T, limits ...bank.Limits) *bench {
	t.Helper()
	b := &bench{T: t, store: newMemory(), now: time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)}
	b.openBank(&lessonTexts{texts: map[string][]byte{}}, append(limits, bank.Limits{})[0])
	return b
}

func (b *bench) openBank(place bank.Place, limits bank.Limits) {
	b.place = place
	b.bank = bank.New(bank.Options{Place: place, Now: b.clock, Limits: limits, Checks: lesson.Checks{Secrets: func(s string) []string {
		if strings.Contains(s, "@") && strings.Contains(s, ".example") {
			return []string{"email"}
		}
		return nil
	}}})
}

func (b *bench) clock() time.Time { return b.now }

// session stores a conversation. A second conversation with the same name replaces or continues the first.
func (b *bench) session(name string, events ...event) session.ID {
	b.Helper()
	return b.tenantSession("default", name, nil, events...)
}

// tenantSession stores a conversation like session does, for a tenant and with the lessons that the session received.
func (b *bench) tenantSession(tenant, name string, lessons []sample.Lesson, events ...event) session.ID {
	b.Helper()
	var id session.ID
	copy(id[:], fmt.Sprintf("%-16s", name))
	b.n++
	x := sample.Exchange{
		ID: fmt.Sprintf("0000%04d-0000-4000-8000-%012x", len(events), id[:6]), Tenant: tenant, Agent: cmp.Or(b.agent, "coder"), Run: b.run, Caller: b.caller, Session: id.String(), SessionName: name, Turn: 1, At: b.now, Dialect: "chat",
		Status: 200, Outcome: sample.Complete, Lessons: lessons,
	}
	for i, e := range events {
		role, text, spoken := strings.Cut(e.say, ": ")
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
	seen := b.now.Add(time.Duration(b.n) * time.Second)
	row := session.Row{Tenant: tenant, ID: id, Started: b.now, Seen: seen, Closed: true, Data: []byte("{}")}
	if err := b.store.Write(b.Context(), session.Batch{Rows: []session.Row{row}, Exchanges: []sample.Exchange{x}}); err != nil {
		b.Fatal(err)
	}
	return id
}

func raw(v any) json.RawMessage {
	data, _ := json.Marshal(v)
	return data
}

// distil runs the distiller once, and fails the test on an error.
func (b *bench) distil(change ...func(*distill.Options)) distill.Summary {
	b.Helper()
	sum, err := b.tryDistil(b.Context(), change...)
	if err != nil {
		b.Fatal(err)
	}
	return sum
}

func (b *bench) tryDistil(ctx context.Context, change ...func(*distill.Options)) (distill.Summary, error) {
	o := distill.Options{Source: b.store, Notes: b.store, Bank: b.bank, Now: b.clock, Owner: "test", Failed: func(name string, err error) {
		if strings.HasPrefix(err.Error(), "panic: ") { // the distiller recovers from a panic, but the test must fail
			b.Errorf("reading %s: %v", name, err)
		}
	}}
	for _, c := range change {
		c(&o)
	}
	return distill.New(o).Once(ctx)
}

// slugs returns the sorted slugs of the lessons in the bank.
func (b *bench) slugs() []string {
	b.Helper()
	var out []string
	for _, l := range b.lessons() {
		out = append(out, l.Slug)
	}
	slices.Sort(out)
	return out
}

func (b *bench) lessons() []*lesson.Lesson {
	b.Helper()
	book, problems, err := b.bank.List(b.Context())
	if err != nil || len(problems) > 0 {
		b.Fatalf("List: problems = %v, err = %v, want neither", problems, err)
	}
	return book.Lessons()
}

func (b *bench) toLesson(slug string) *lesson.Lesson {
	b.Helper()
	for _, l := range b.lessons() {
		if l.Slug == slug {
			return l
		}
	}
	b.Fatalf("lesson %s not found among %v", slug, b.slugs())
	return nil
}

// log returns the bank's audit log.
func (b *bench) log() string {
	b.Helper()
	events, err := b.place.Tail(b.Context(), 1000)
	if err != nil {
		b.Fatal(err)
	}
	return fmt.Sprint(events)
}

// equal fails the test if got and want print differently. name describes the compared value.
func equal(t testing.TB, name string, got, want any) {
	t.Helper()
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("%s:\ngot  %+v\nwant %+v", name, got, want)
	}
}
