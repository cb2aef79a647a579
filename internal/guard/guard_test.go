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

// book records marks. onSetAside decides for each mark whether the write succeeds.
type book struct {
	onSetAside func(a session.DeadLetter) error // nil: all is well
	written    []string
	asked      int
	readmits   int
	err        error // of Readmit
}

// SetAside keeps the marks, unless the test makes a mark fail.
func (b *book) SetAside(_ context.Context, list []session.DeadLetter) error {
	b.asked++
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

// Readmit records the limit of tries and returns the error of the test, or panics without one.
func (b *book) Readmit(_ context.Context, most int) (int, error) {
	if b.readmits = most; b.err == nil {
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

// newGuard returns a guard that records its reports; change may change the options before.
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
	equal(t, "a step", g.Step("one", func() {}), true)
	equal(t, "one that panics", g.Step("two", func() { panic("x") }), false)
	equal(t, "one that fails", g.Err("three", func() error { return errors.ErrUnsupported }), errors.ErrUnsupported)
	err := g.Err("four", func() error { panic("y") })
	equal(t, "its error", errors.Is(err, guard.ErrPanicked) && strings.Contains(err.Error(), "four"), true)
	equal(t, "panics", g.panicked, []string{"two: x", "four: y"})
	for err, want := range map[error]bool{
		err: true, fmt.Errorf("write: %w", session.ErrInvalid): true, session.ErrUnavailable: false, session.ErrDiskFull: false,
	} {
		equal(t, fmt.Sprint("Poisoned: ", err), guard.Poisoned(err), want)
	}
}

// A panic at a session excludes the session for this run; a panic at an exchange excludes the exchange only.
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
	keep := &book{onSetAside: func(a session.DeadLetter) error { list = append(list, a); return nil }}
	equal(t, "well", g.On("close", of("a"), "", func() {}), true)
	equal(t, "an exchange", g.On("write", of("b"), "x1", func() { panic("p") }), false)
	equal(t, "a session", g.On("close", of("c"), "", func() { panic("q") }), false)
	equal(t, "before its step", g.On("early", of("d"), "", func() { t.Error("the step ran for a session that is set aside") }), false)
	equal(t, "announced", before, []string{"close1", "write1x1", "close1", "early1"})
	for name, want := range map[string]bool{"a": false, "b": false, "c": true, "d": true} {
		equal(t, name+" is left alone", g.IsAside(of(name)), want)
	}
	equal(t, "counted", g.count.Load(), 3)
	equal(t, "panics", g.panicked, []string{"write: p", "close: q", "early: before"})
	g.Keep(t.Context(), keep)
	equal(t, "marks", list, []session.DeadLetter{
		{Tenant: "b", ID: session.ID{1}, Exchange: "x1", Step: "write", Why: "p", At: at()},
		{Tenant: "c", ID: session.ID{1}, Step: "close", Why: "q", At: at()},
		{Tenant: "d", ID: session.ID{1}, Step: "early", Why: "before", At: at()},
	})
	g.Keep(t.Context(), keep)
	equal(t, "written again", keep.asked, 1)
}

// The text of a panic may quote user data: the text is bounded and redacted, and omitted when redaction fails.
func TestPanicTextIsBoundedAndRedacted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		clean func(string) string
		want  string
	}{
		"cleaned":             {func(text string) string { return "clean " + text[len(text)-1:] }, "clean x"},
		"cut before":          {func(text string) string { return fmt.Sprint(len(text)) }, "512"},
		"nobody cleans it":    {nil, "(text removed)"},
		"the cleaning panics": {func(string) string { panic("clean") }, "(text removed)"},
	} {
		g := newGuard(func(o *guard.Options) { o.Clean = c.clean })
		g.SetAside("step", of("a"), "", strings.Repeat("x", 9000))
		g.Keep(t.Context(), &book{onSetAside: func(a session.DeadLetter) error {
			equal(t, name, a.Why, c.want)
			return nil
		}})
	}
	g := newGuard(nil)
	g.SetAside("read", of("a"), "", "it broke\ngoroutine 1 [running]:\n/home/of/somebody.go:7")
	g.Keep(t.Context(), &book{onSetAside: func(a session.DeadLetter) error {
		equal(t, "without its stack", a.Why, "it broke")
		return nil
	}})
}

// A mark that panics or is refused on writing does not affect the other marks.
func TestFailedMarkDoesNotBlockOtherMarks(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]func() error{
		"panics":  func() error { panic("mark") },
		"refused": func() error { return session.ErrInvalid },
	} {
		g := newGuard(nil)
		keep := &book{onSetAside: func(a session.DeadLetter) error {
			if a.Tenant == "b" {
				return bad()
			}
			return nil
		}}
		for _, tenant := range []string{"a", "b", "c"} {
			g.SetAside("close", of(tenant), "", "why")
		}
		g.Keep(t.Context(), keep)
		equal(t, name+": written", keep.written, []string{"a", "c"})
		equal(t, name+": failures", len(g.failed), 1)
		asked := keep.asked
		g.Keep(t.Context(), keep)
		equal(t, name+": asked again", keep.asked, asked)
		equal(t, name+": left alone in this run", g.IsAside(of("b")), true)
	}
}

// During an outage of the store, marks wait in order, and new marks are appended.
func TestMarksWaitInOrderDuringAnOutage(t *testing.T) {
	t.Parallel()
	g := newGuard(nil)
	keep := &book{}
	keep.onSetAside = func(a session.DeadLetter) error {
		if a.Tenant == "a" && keep.asked == 1 {
			g.SetAside("close", of("c"), "", "meanwhile")
			return session.ErrUnavailable
		}
		return nil
	}
	g.SetAside("close", of("a"), "", "why")
	g.SetAside("close", of("b"), "", "why")
	g.Keep(t.Context(), keep)
	equal(t, "written", len(keep.written), 0)
	equal(t, "failures", g.failed, []string{"set_aside: " + session.ErrUnavailable.Error()})
	g.Keep(t.Context(), keep)
	equal(t, "written then", keep.written, []string{"a", "b", "c"})
}

// The number of marks in memory is bounded for a program that panics all the time.
func TestMarksInMemoryAreBounded(t *testing.T) {
	t.Parallel()
	const most = 10_000
	g := newGuard(nil)
	for n := range most + 50 {
		g.SetAside("close", of(fmt.Sprint(n)), "", "why")
	}
	equal(t, "counted", g.count.Load(), most+50)
	equal(t, "the last that is left alone", g.IsAside(of(fmt.Sprint(most-1))), true)
	equal(t, "one more", g.IsAside(of(fmt.Sprint(most))), false)
	keep := &book{onSetAside: func(session.DeadLetter) error { return session.ErrUnavailable }}
	g.Keep(t.Context(), keep)
	for n := range 10 {
		g.SetAside("close", of(fmt.Sprint("late", n)), "", "why")
	}
	g.Keep(t.Context(), keep)
	keep.onSetAside = nil
	g.Keep(t.Context(), keep)
	equal(t, "written", len(keep.written), most)
	equal(t, "the first", keep.written[0], "0")
}

func TestReadmitReportsItsFailures(t *testing.T) {
	t.Parallel()
	g := newGuard(nil)
	from := &book{}
	g.Readmit(t.Context(), from)
	equal(t, "limit of tries", from.readmits, guard.Tries)
	from.err = session.ErrUnavailable
	g.Readmit(t.Context(), from)
	equal(t, "results", []bool{
		len(g.failed) == 2, slices.Contains(g.failed, "readmit: "+session.ErrUnavailable.Error()), slices.Contains(g.panicked, "readmit: readmit"),
	}, []bool{true, true, true})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	from.err = ctx.Err()
	g.Readmit(ctx, from)
	equal(t, "reports of a stop", len(g.failed), 2)
}
