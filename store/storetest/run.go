package storetest

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"precept/session"
)

// tenants of the suite; other never writes unless the case says so.
const (
	us   = "default"
	them = "other"
)

// Run holds one backend to the contract. open makes an empty store.
func Run(t *testing.T, open func(t *testing.T) Store) {
	t.Helper()
	for _, group := range []struct {
		name  string
		cases map[string]func(*testing.T, Store)
	}{
		{"sessions", sessionCases()},
		{"echoes", echoCases()},
		{"feedback", feedbackCases()},
		{"parking", parkingCases()},
		{"settle", settleCases()},
		{"models", modelCases()},
		{"samples", sampleCases()},
		{"keeping", keepingCases()},
		{"together", togetherCases()},
	} {
		for name, run := range group.cases {
			t.Run(group.name+"/"+name, func(t *testing.T) {
				t.Parallel() // each has a store of its own, and most of the time is spent on making it
				run(t, open(t))
			})
		}
	}
	t.Run("settle/any order, the same counters", func(t *testing.T) { anyOrder(t, open) })
	t.Run("feedback/any order, the same set", func(t *testing.T) { anySet(t, open) })
	t.Run("sessions/any order, the same row", func(t *testing.T) { anyRow(t, open) })
}

// must ends the test on an error; most cases are not about them.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// got ends the test on an error and hands the value on.
func got[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// failing is what a test of the suite and a draw of rapid have in common.
type failing interface {
	Helper()
	Errorf(format string, args ...any)
}

func equal(t failing, what string, have, want any) {
	t.Helper()
	if !reflect.DeepEqual(have, want) {
		t.Errorf("%s:\nhave %+v\nwant %+v", what, have, want)
	}
}

func write(t testing.TB, s Store, b session.Batch) {
	t.Helper()
	must(t, s.Write(t.Context(), b))
}

func stats(t testing.TB, s Store) map[string]int64 {
	t.Helper()
	return got[map[string]int64](t)(s.Stats(t.Context()))
}

// ended is a context that is over.
func ended(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func isEnded(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
