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

// markStore records the tenants in the stored marks. A mark names a session or exchange that a panic set aside.
type markStore struct {
	onSetAside func(a session.DeadLetter) error // may be nil
	written    []string
	calls      int
	limit      int   // last argument to Readmit
	err        error // error from Readmit
}

// SetAside stores all marks, or none if onSetAside returns an error.
func (s *markStore) SetAside(_ context.Context, list []session.DeadLetter) error {
	s.calls++
	for _, a := range list {
		if s.onSetAside != nil {
			if err := s.onSetAside(a); err != nil {
				return err
			}
		}
	}
	for _, a := range list {
		s.written = append(s.written, a.Tenant)
	}
	return nil
}

// Readmit panics if s.err is nil.
func (s *markStore) Readmit(_ context.Context, maxTries int) (int, error) {
	if s.limit = maxTries; s.err == nil {
		panic("readmit")
	}
	return 0, s.err
}

type recordingGuard struct {
	*guard.Guard
	failed, panicked []string
	count            atomic.Int64
}

func testTime() time.Time { return time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC) }

// newGuard returns a guard that records failures and panics. change may be nil.
func newGuard(change func(o *guard.Options)) *recordingGuard {
	r := &recordingGuard{}
	o := guard.Options{
		Now:           testTime,
		OnFailure:     func(step label.Step, err error) { r.failed = append(r.failed, fmt.Sprint(step, ": ", err)) },
		OnPanic:       func(step label.Step, v any) { r.panicked = append(r.panicked, fmt.Sprint(step, ": ", v)) },
		Clean:         func(text string) string { return text },
		SetAsideCount: &r.count,
	}
	if change != nil {
		change(&o)
	}
	r.Guard = guard.New(o)
	return r
}

func checkEqual[T any](t *testing.T, subject string, got, want T) {
	t.Helper()
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		t.Errorf("%s: got %s, want %s", subject, g, w)
	}
}

func newSessionRef(tenant string) session.Ref { return session.Ref{Tenant: tenant, ID: session.ID{1}} }

func TestStepPanicIsReturnedAsFailure(t *testing.T) {
	t.Parallel()
	g := newGuard(nil)
	checkEqual(t, "Run(function that returns)", g.Run("one", func() {}), true)
	checkEqual(t, "Run(function that panics)", g.Run("two", func() { panic("x") }), false)
	checkEqual(t, "RunErr(function that returns an error)", g.RunErr("three", func() error { return errors.ErrUnsupported }), errors.ErrUnsupported)
	err := g.RunErr("four", func() error { panic("y") })
	checkEqual(t, "error after a panic is ErrPanicked with the step", errors.Is(err, guard.ErrPanicked) && strings.Contains(err.Error(), "four"), true)
	checkEqual(t, "reported panics", g.panicked, []string{"two: x", "four: y"})
	for err, want := range map[error]bool{
		err: true, fmt.Errorf("write: %w", session.ErrInvalid): true, session.ErrUnavailable: false, session.ErrDiskFull: false,
	} {
		checkEqual(t, fmt.Sprint("IsPermanent: ", err), guard.IsPermanent(err), want)
	}
}

func TestPanicSetsSessionOrExchangeAside(t *testing.T) {
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
	marks := &markStore{onSetAside: func(a session.DeadLetter) error { list = append(list, a); return nil }}
	checkEqual(t, "RunOn(function that returns)", g.RunOn("close", newSessionRef("a"), "", func() {}), true)
	checkEqual(t, "RunOn(exchange, function that panics)", g.RunOn("write", newSessionRef("b"), "x1", func() { panic("p") }), false)
	checkEqual(t, "RunOn(session, function that panics)", g.RunOn("close", newSessionRef("c"), "", func() { panic("q") }), false)
	checkEqual(t, "RunOn if the Before hook panics", g.RunOn("early", newSessionRef("d"), "", func() { t.Error("the step ran although Before panicked") }), false)
	checkEqual(t, "Before calls", before, []string{"close1", "write1x1", "close1", "early1"})
	for name, want := range map[string]bool{"a": false, "b": false, "c": true, "d": true} {
		checkEqual(t, "IsSkipped(session "+name+")", g.IsSkipped(newSessionRef(name)), want)
	}
	checkEqual(t, "sessions and exchanges set aside", g.count.Load(), 3)
	checkEqual(t, "reported panics", g.panicked, []string{"write: p", "close: q", "early: before"})
	g.StorePending(t.Context(), marks)
	checkEqual(t, "stored marks", list, []session.DeadLetter{
		{Tenant: "b", ID: session.ID{1}, Exchange: "x1", Step: "write", Why: "p", At: testTime()},
		{Tenant: "c", ID: session.ID{1}, Step: "close", Why: "q", At: testTime()},
		{Tenant: "d", ID: session.ID{1}, Step: "early", Why: "before", At: testTime()},
	})
	g.StorePending(t.Context(), marks)
	checkEqual(t, "writes after a second StorePending", marks.calls, 1)
}

// A panic's text can quote user data.
func TestPanicTextIsBoundedAndRedacted(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		clean func(string) string
		want  string
	}{
		"Clean changes the text":   {func(text string) string { return "clean " + text[len(text)-1:] }, "clean x"},
		"Clean returns the length": {func(text string) string { return fmt.Sprint(len(text)) }, "512"},
		"no Clean":                 {nil, "(text removed)"},
		"Clean panics":             {func(string) string { panic("clean") }, "(text removed)"},
	} {
		g := newGuard(func(o *guard.Options) { o.Clean = tc.clean })
		g.SetAside("step", newSessionRef("a"), "", strings.Repeat("x", 9000))
		g.StorePending(t.Context(), &markStore{onSetAside: func(a session.DeadLetter) error {
			checkEqual(t, name+": mark text", a.Why, tc.want)
			return nil
		}})
	}
	g := newGuard(nil)
	g.SetAside("read", newSessionRef("a"), "", "it broke\ngoroutine 1 [running]:\n/home/of/somebody.go:7")
	g.StorePending(t.Context(), &markStore{onSetAside: func(a session.DeadLetter) error {
		checkEqual(t, "mark text without the stack", a.Why, "it broke")
		return nil
	}})
}

func TestFailedMarkDoesNotBlockOtherMarks(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]func() error{
		"panics":  func() error { panic("mark") },
		"refused": func() error { return session.ErrInvalid },
	} {
		g := newGuard(nil)
		marks := &markStore{onSetAside: func(a session.DeadLetter) error {
			if a.Tenant == "b" {
				return bad()
			}
			return nil
		}}
		for _, tenant := range []string{"a", "b", "c"} {
			g.SetAside("close", newSessionRef(tenant), "", "why")
		}
		g.StorePending(t.Context(), marks)
		checkEqual(t, name+": tenants in the stored marks", marks.written, []string{"a", "c"})
		checkEqual(t, name+": reported failures", len(g.failed), 1)
		calls := marks.calls
		g.StorePending(t.Context(), marks)
		checkEqual(t, name+": writes after a second StorePending", marks.calls, calls)
		checkEqual(t, name+": IsSkipped(session b)", g.IsSkipped(newSessionRef("b")), true)
	}
}

func TestMarksWaitInOrderDuringStoreOutage(t *testing.T) {
	t.Parallel()
	g := newGuard(nil)
	marks := &markStore{}
	marks.onSetAside = func(a session.DeadLetter) error {
		if a.Tenant == "a" && marks.calls == 1 {
			g.SetAside("close", newSessionRef("c"), "", "meanwhile")
			return session.ErrUnavailable
		}
		return nil
	}
	g.SetAside("close", newSessionRef("a"), "", "why")
	g.SetAside("close", newSessionRef("b"), "", "why")
	g.StorePending(t.Context(), marks)
	checkEqual(t, "stored marks during the outage", len(marks.written), 0)
	checkEqual(t, "reported failures", g.failed, []string{"set_aside: " + session.ErrUnavailable.Error()})
	g.StorePending(t.Context(), marks)
	checkEqual(t, "tenants in the stored marks after the outage", marks.written, []string{"a", "b", "c"})
}

func TestMarksInMemoryAreBounded(t *testing.T) {
	t.Parallel()
	const maxMarks = 10_000
	g := newGuard(nil)
	for n := range maxMarks + 50 {
		g.SetAside("close", newSessionRef(fmt.Sprint(n)), "", "why")
	}
	checkEqual(t, "sessions set aside", g.count.Load(), maxMarks+50)
	checkEqual(t, "IsSkipped(last session within the limit)", g.IsSkipped(newSessionRef(fmt.Sprint(maxMarks-1))), true)
	checkEqual(t, "IsSkipped(first session above the limit)", g.IsSkipped(newSessionRef(fmt.Sprint(maxMarks))), false)
	marks := &markStore{onSetAside: func(session.DeadLetter) error { return session.ErrUnavailable }}
	g.StorePending(t.Context(), marks)
	for n := range 10 {
		g.SetAside("close", newSessionRef(fmt.Sprint("late", n)), "", "why")
	}
	g.StorePending(t.Context(), marks)
	marks.onSetAside = nil
	g.StorePending(t.Context(), marks)
	checkEqual(t, "stored marks", len(marks.written), maxMarks)
	checkEqual(t, "first stored mark's tenant", marks.written[0], "0")
}

func TestReadmitReportsFailures(t *testing.T) {
	t.Parallel()
	g := newGuard(nil)
	from := &markStore{}
	g.Readmit(t.Context(), from)
	checkEqual(t, "maximum tries", from.limit, guard.MaxTries)
	from.err = session.ErrUnavailable
	g.Readmit(t.Context(), from)
	checkEqual(t, "reported failures", len(g.failed), 2)
	checkEqual(t, fmt.Sprint("reported failures include the store's error: ", g.failed), slices.Contains(g.failed, "readmit: "+session.ErrUnavailable.Error()), true)
	checkEqual(t, fmt.Sprint("reported panics include Readmit's panic: ", g.panicked), slices.Contains(g.panicked, "readmit: readmit"), true)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	from.err = ctx.Err()
	g.Readmit(ctx, from)
	checkEqual(t, "reported failures after a canceled context", len(g.failed), 2)
}
