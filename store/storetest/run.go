package storetest

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/internal/sample"
	"precept/internal/session"
)

const (
	tenantA = "default"
	tenantB = "other"
)

// Run runs the conformance suite on a backend. open returns an empty store.
func Run(t *testing.T, open func(t *testing.T) Store) {
	t.Helper()
	for _, group := range []struct {
		name  string
		cases map[string]func(tester, Store)
	}{
		{"sessions", sessionCases()},
		{"echoes", echoCases()},
		{"feedback", feedbackCases()},
		{"parking", parkingCases()},
		{"settle", settleCases()},
		{"models", modelCases()},
		{"samples", sampleCases()},
		{"listing", listingCases()},
		{"deletion", deletionCases()},
		{"dead letters", deadLetterCases()},
		{"notes", noteCases()},
		{"concurrency", concurrencyCases()},
	} {
		for name, run := range group.cases {
			t.Run(group.name+"/"+name, func(t *testing.T) {
				t.Parallel() // opening the store takes most of the time
				run(t, open(t))
			})
		}
	}
	t.Run("settle/any order gives the same counters", func(t *testing.T) { rapid.Check(t, testSettlementOrder(open(t))) })
	t.Run("feedback/any order gives the same entries", func(t *testing.T) { rapid.Check(t, testFeedbackOrder(open(t))) })
	t.Run("deletion/totals after any history equal the counted rows", func(t *testing.T) { rapid.Check(t, testRandomHistory(open(t))) })
	t.Run("sessions/any order gives the same row", func(t *testing.T) { rapid.Check(t, testRowOrder(open(t))) })
}

// tester has those methods of testing.T and rapid.T that the cases use.
type tester interface {
	Helper()
	Context() context.Context
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func must(t tester, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// mustGet returns a function that returns v. If err is not nil, the function fails the test and ends it.
func mustGet[T any](t tester) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		must(t, err)
		return v
	}
}

func checkEqual(t tester, subject string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\ngot %+v\nwant %+v", subject, got, want)
	}
}

func write(t tester, s Store, b session.Batch) {
	t.Helper()
	must(t, s.Write(t.Context(), b))
}

func stats(t tester, s Store) map[string]int64 {
	t.Helper()
	return mustGet[map[string]int64](t)(s.Stats(t.Context()))
}

func canceledContext(t tester) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// The following functions return the suite's test data. A number n identifies each session.

func atMinute(minutes int) time.Time {
	return time.Date(2031, 5, 6, 7, 8, 9, 123_456_000, time.UTC).Add(time.Duration(minutes) * time.Minute)
}

func id(n int) (id session.ID) {
	copy(id[:], fmt.Sprintf("%08x-session", n*0x9e3779b))
	return id
}

// row returns the row of session n, which started at minute n and was last seen at minute seen.
func row(tenant string, n, seen int) session.Row {
	return session.Row{
		Tenant: tenant, ID: id(n), Started: atMinute(n), Seen: atMinute(seen),
		Data: fmt.Appendf(nil, `{"tenant":%q,"n":%d,"seen":%d}`, tenant, n, seen),
	}
}

// exchange returns the exchange for a turn of session n.
func exchange(tenant string, n, turn int) sample.Exchange {
	sid := id(n)
	return sample.Exchange{
		ID: fmt.Sprintf("%s-%d-%d", tenant, n, turn), Tenant: tenant, Agent: "coder", Session: hex.EncodeToString(sid[:]), SessionName: "ci-42",
		RequestID: fmt.Sprintf("req-%d", turn), Turn: turn, At: atMinute(n + turn), Dialect: "chat", Model: "m-1", Status: 200, Outcome: "complete",
		New:      []json.RawMessage{json.RawMessage(`{"role":"user","content":"a < b & c > d"}`)},
		FirstNew: turn, Reply: sample.Reply{ID: "chatcmpl-1", Text: "done", Calls: []sample.Call{{ID: "c1", Name: "ls", Args: `{"p":"."}`}}, InputTokens: 12},
		Lessons: []sample.Lesson{{Slug: "verify-id", Arm: "verify-id@0123456789ab", State: "injected", Propensity: 0.76}}, LatencyMS: 12.5,
		Redacted: map[string]int{"email": 2},
	}
}

// storedSample returns a sample of session n. The argument number determines the sample's id and time.
func storedSample(tenant string, n, number int) session.StoredSample {
	return session.StoredSample{Tenant: tenant, Agent: "coder", ID: id(n), Sample: sample.Sample{
		ID: fmt.Sprintf("sample-%s-%d", tenant, number), Family: "dialog_response", CreatedAt: atMinute(number),
		Input: map[string]any{"text": fmt.Sprint("in ", number)}, Output: map[string]any{"text": "out"},
		Feedback: sample.Feedback{Source: "system", Type: "score", Details: map[string]any{"rated": false}}, Meta: map[string]any{"q": 0.5},
	}}
}

// entry returns feedback that was posted at the given minute. The feedback's id is name.
func entry(name string, minute int, score float64) feedback.Entry {
	return feedback.Entry{ID: name, At: atMinute(minute), Source: "user", Type: "score", Score: score, Tier: 1, Rater: "kim", Comment: "<" + name + ">"}
}

// delta returns a change by v to the counter or maximum with the given scope (the arm of a lesson, such as a@1), field
// and day.
func delta(scope, field string, day int32, v int64) trial.Delta {
	return trial.Delta{Key: trial.Key{Scope: scope, Field: field, Day: day}, Value: v}
}
