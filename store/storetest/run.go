package storetest

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"precept/internal/session"
)

// The tenants of the suite.
const (
	us   = "default"
	them = "other"
)

// Run holds one backend to the contract. open makes an empty store.
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
		{"keeping", keepingCases()},
		{"aside", asideCases()},
		{"jottings", jottingCases()},
		{"together", togetherCases()},
	} {
		for name, run := range group.cases {
			t.Run(group.name+"/"+name, func(t *testing.T) {
				t.Parallel() // each has a store of its own, and most of the time is spent on making it
				run(t, open(t))
			})
		}
	}
	t.Run("settle/any order, the same counters", func(t *testing.T) { rapid.Check(t, anyOrder(open(t))) })
	t.Run("feedback/any order, the same set", func(t *testing.T) { rapid.Check(t, anySet(open(t))) })
	t.Run("keeping/any history, counted as it is", func(t *testing.T) { rapid.Check(t, anyHistory(open(t))) })
	t.Run("sessions/any order, the same row", func(t *testing.T) { rapid.Check(t, anyRow(open(t))) })
}

// tester is what the cases need of a test; a draw of rapid has it, too.
type tester interface {
	Helper()
	Context() context.Context
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// must ends the test on an error; most cases are not about them.
func must(t tester, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// got ends the test on an error and hands the value on.
func got[T any](t tester) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		must(t, err)
		return v
	}
}

func equal(t tester, what string, have, want any) {
	t.Helper()
	if !reflect.DeepEqual(have, want) {
		t.Errorf("%s:\nhave %+v\nwant %+v", what, have, want)
	}
}

func write(t tester, s Store, b session.Batch) {
	t.Helper()
	must(t, s.Write(t.Context(), b))
}

func stats(t tester, s Store) map[string]int64 {
	t.Helper()
	return got[map[string]int64](t)(s.Stats(t.Context()))
}

// ended is a context that is over.
func ended(t tester) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func isEnded(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
