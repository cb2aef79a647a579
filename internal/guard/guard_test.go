package guard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"precept/internal/guard"
	"precept/internal/label"
	"precept/internal/session"
)

// recordedMarks is a store of marks that records the tenants of its marks. A mark (session.DeadLetter) excludes a
// session or an exchange at which a step panicked.
type recordedMarks struct {
	onSetAside func(a session.DeadLetter) error // may return an error for a mark; nil: no errors
	written    []string                         // tenants of the stored marks
	calls      int                              // number of calls of SetAside
	limit      int                              // limit of the last call of Readmit
	err        error                            // error of Readmit
}

// SetAside stores the marks, unless onSetAside returns an error for a mark.
func (b *recordedMarks) SetAside(_ context.Context, list []session.DeadLetter) error {
	b.calls++
	for _, a := range list {
		if b.onSetAside != nil {
			if err := b.onSetAside(a); err != nil {
				return err
			}
		}
	}
	for _, a := range list {
		b.written = append(b.written, a.Tenant)
	}
	return nil
}

// Readmit records the limit of tries and returns b.err. Readmit panics if b.err is nil.
func (b *recordedMarks) Readmit(_ context.Context, most int) (int, error) {
	if b.limit = most; b.err == nil {
		panic("readmit")
	}
	return 0, b.err
}

// recordingGuard is a guard that records its reports.
type recordingGuard struct {
	*guard.Guard
	failed, panicked []string
	count            atomic.Int64
}

func at() time.Time { return time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC) }

// newGuard returns a guard that records its reports. If change is not nil, change edits the options of the guard.
func newGuard(change func(o *guard.Options)) *recordingGuard {
	t := &recordingGuard{}
	o := guard.Options{
		Now:      at,
		Failed:   func(step label.Step, err error) { t.failed = append(t.failed, fmt.Sprint(step, ": ", err)) },
		Panicked: func(step label.Step, v any) { t.panicked = append(t.panicked, fmt.Sprint(step, ": ", v)) },
		Clean:    func(text string) string { return text },
		Count:    &t.count,
	}
	if change != nil {
		change(&o)
	}
	t.Guard = guard.New(o)
	return t
}

// equal fails the test if got and want print differently; subject names the compared value in the message.
func equal[T any](t *testing.T, subject string, got, want T) {
	t.Helper()
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		t.Errorf("%s: got %s, want %s", subject, g, w)
	}
}

// of returns a reference to the session of a tenant.
func of(name string) session.Ref { return session.Ref{Tenant: name, ID: session.ID{1}} }

func TestPanickingStepReturnsAnError(t *testing.T) {
	t.Parallel()
	g := newGuard(nil)
	equal(t, "Step of a step that returns", g.Step("one", func() {}), true)
	equal(t, "Step of a step that panics", g.Step("two", func() { panic("x") }), false)
	equal(t, "Err of a step with an error", g.Err("three", func() error { return errors.ErrUnsupported }), errors.ErrUnsupported)
	err := g.Err("four", func() error { panic("y") })
	equal(t, "Err of a step that panics is ErrPanicked and names the step", errors.Is(err, guard.ErrPanicked) && strings.Contains(err.Error(), "four"), true)
	equal(t, "reported panics", g.panicked, []string{"two: x", "four: y"})
	for err, want := range map[error]bool{
		err: true, fmt.Errorf("write: %w", session.ErrInvalid): true, session.ErrUnavailable: false, session.ErrDiskFull: false,
	} {
		equal(t, fmt.Sprint("Poisoned: ", err), guard.Poisoned(err), want)
	}
}

// After a panic at a session, IsAside returns true for the session. After a panic at an exchange, IsAside returns false
// for its session. Both panics give a mark.
func TestPanicExcludesItsSessionOrExchange(t *testing.T) {
	t.Parallel()
	var before []string
	g := newGuard(func(o *guard.Options) {
		o.Before = func(step label.Step, id session.ID, exchange string) {
			before = append(before, fmt.Sprint(step, id[0], exchange))
			if step == "early" {
				panic("before")
			}
		}
	})
	var list []session.DeadLetter
	keep := &recordedMarks{onSetAside: func(a session.DeadLetter) error { list = append(list, a); return nil }}
	equal(t, "On of a step that returns", g.On("close", of("a"), "", func() {}), true)
	equal(t, "On of a step that panics at an exchange", g.On("write", of("b"), "x1", func() { panic("p") }), false)
	equal(t, "On of a step that panics at a session", g.On("close", of("c"), "", func() { panic("q") }), false)
	equal(t, "On with a panic of Before", g.On("early", of("d"), "", func() { t.Error("the step ran for a session that is set aside") }), false)
	equal(t, "calls of Before", before, []string{"close1", "write1x1", "close1", "early1"})
	for name, want := range map[string]bool{"a": false, "b": false, "c": true, "d": true} {
		equal(t, "IsAside of session "+name, g.IsAside(of(name)), want)
	}
	equal(t, "number of marks", g.count.Load(), 3)
	equal(t, "reported panics", g.panicked, []string{"write: p", "close: q", "early: before"})
	g.Keep(t.Context(), keep)
	equal(t, "stored marks", list, []session.DeadLetter{
		{Tenant: "b", ID: session.ID{1}, Exchange: "x1", Step: "write", Why: "p", At: at()},
		{Tenant: "c", ID: session.ID{1}, Step: "close", Why: "q", At: at()},
		{Tenant: "d", ID: session.ID{1}, Step: "early", Why: "before", At: at()},
	})
	g.Keep(t.Context(), keep)
	equal(t, "number of writes after a second Keep", keep.calls, 1)
}

// The text of a panic may quote user data. The mark has a bounded and redacted text, and no text if the redaction
// fails.
func TestPanicTextIsBoundedAndRedacted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		clean func(string) string
		want  string
	}{
		"Clean":                              {func(text string) string { return "clean " + text[len(text)-1:] }, "clean x"},
		"length of the text that Clean gets": {func(text string) string { return fmt.Sprint(len(text)) }, "512"},
		"no Clean":                           {nil, "(text removed)"},
		"Clean panics":                       {func(string) string { panic("clean") }, "(text removed)"},
	} {
		g := newGuard(func(o *guard.Options) { o.Clean = c.clean })
		g.SetAside("step", of("a"), "", strings.Repeat("x", 9000))
		g.Keep(t.Context(), &recordedMarks{onSetAside: func(a session.DeadLetter) error {
			equal(t, name+": text of the mark", a.Why, c.want)
			return nil
		}})
	}
	g := newGuard(nil)
	g.SetAside("read", of("a"), "", "it broke\ngoroutine 1 [running]:\n/home/of/somebody.go:7")
	g.Keep(t.Context(), &recordedMarks{onSetAside: func(a session.DeadLetter) error {
		equal(t, "text of a panic without its stack", a.Why, "it broke")
		return nil
	}})
}

// If the store panics at one mark or refuses the mark, the other marks are stored.
func TestFailedMarkDoesNotBlockOtherMarks(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]func() error{
		"panics":  func() error { panic("mark") },
		"refused": func() error { return session.ErrInvalid },
	} {
		g := newGuard(nil)
		keep := &recordedMarks{onSetAside: func(a session.DeadLetter) error {
			if a.Tenant == "b" {
				return bad()
			}
			return nil
		}}
		for _, tenant := range []string{"a", "b", "c"} {
			g.SetAside("close", of(tenant), "", "why")
		}
		g.Keep(t.Context(), keep)
		equal(t, name+": tenants of the stored marks", keep.written, []string{"a", "c"})
		equal(t, name+": number of reported failures", len(g.failed), 1)
		calls := keep.calls
		g.Keep(t.Context(), keep)
		equal(t, name+": number of writes after a second Keep", keep.calls, calls)
		equal(t, name+": IsAside of session b", g.IsAside(of("b")), true)
	}
}

// During an outage of the store, the guard keeps the marks in order, and appends new marks.
func TestMarksWaitInOrderDuringAnOutage(t *testing.T) {
	t.Parallel()
	g := newGuard(nil)
	keep := &recordedMarks{}
	keep.onSetAside = func(a session.DeadLetter) error {
		if a.Tenant == "a" && keep.calls == 1 {
			g.SetAside("close", of("c"), "", "meanwhile")
			return session.ErrUnavailable
		}
		return nil
	}
	g.SetAside("close", of("a"), "", "why")
	g.SetAside("close", of("b"), "", "why")
	g.Keep(t.Context(), keep)
	equal(t, "number of stored marks during the outage", len(keep.written), 0)
	equal(t, "reported failures", g.failed, []string{"set_aside: " + session.ErrUnavailable.Error()})
	g.Keep(t.Context(), keep)
	equal(t, "tenants of the stored marks after the outage", keep.written, []string{"a", "b", "c"})
}

// A guard keeps at most 10,000 marks in memory, even if every step panics.
func TestMarksInMemoryAreBounded(t *testing.T) {
	t.Parallel()
	const most = 10_000
	g := newGuard(nil)
	for n := range most + 50 {
		g.SetAside("close", of(fmt.Sprint(n)), "", "why")
	}
	equal(t, "number of calls of SetAside", g.count.Load(), most+50)
	equal(t, "IsAside of the last session within the bound", g.IsAside(of(fmt.Sprint(most-1))), true)
	equal(t, "IsAside of the first session beyond the bound", g.IsAside(of(fmt.Sprint(most))), false)
	keep := &recordedMarks{onSetAside: func(session.DeadLetter) error { return session.ErrUnavailable }}
	g.Keep(t.Context(), keep)
	for n := range 10 {
		g.SetAside("close", of(fmt.Sprint("late", n)), "", "why")
	}
	g.Keep(t.Context(), keep)
	keep.onSetAside = nil
	g.Keep(t.Context(), keep)
	equal(t, "number of stored marks", len(keep.written), most)
	equal(t, "tenant of the first stored mark", keep.written[0], "0")
}

func TestReadmitReportsItsFailures(t *testing.T) {
	t.Parallel()
	g := newGuard(nil)
	from := &recordedMarks{}
	g.Readmit(t.Context(), from)
	equal(t, "limit of tries", from.limit, guard.Tries)
	from.err = session.ErrUnavailable
	g.Readmit(t.Context(), from)
	equal(t, "number of reported failures", len(g.failed), 2)
	equal(t, fmt.Sprint("the failure of the store is among the failures ", g.failed), slices.Contains(g.failed, "readmit: "+session.ErrUnavailable.Error()), true)
	equal(t, fmt.Sprint("the panic of Readmit is among the panics ", g.panicked), slices.Contains(g.panicked, "readmit: readmit"), true)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	from.err = ctx.Err()
	g.Readmit(ctx, from)
	equal(t, "number of reported failures after a canceled context", len(g.failed), 2)
}
