// Package guard keeps a panic in one session or exchange from stopping the work on the others.
//
// Workers run steps through a Guard. If a step panics, the guard marks the session or exchange with a
// session.DeadLetter, and the worker continues with the others. A marked session is skipped until the next program
// start, when the session is tried again. After MaxTries tries, the session is skipped for good.
package guard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"precept/internal/label"
	"precept/internal/session"
)

// MaxTries is how often a session is tried whose step panics. Each program run tries once.
const MaxTries = 3

const (
	maxMarks      = 10_000 // kept in memory
	maxPanicBytes = 512    // stored per panic text
)

// ErrPanicked is the error for a step that panicked.
var ErrPanicked = errors.New("a step panicked")

// IsPermanent reports whether every further attempt to write the value would fail as well.
func IsPermanent(err error) bool {
	return errors.Is(err, session.ErrInvalid) || errors.Is(err, ErrPanicked)
}

// Options configure a Guard.
type Options struct {
	Now       func() time.Time
	OnFailure func(step label.Step, err error) // called if marks could not be stored or readmitted
	OnPanic   func(step label.Step, value any) // value is the panic value
	// Before is called before each step on a session, or on an exchange if exchange is not "". Before may be nil. Tests
	// use Before to make a step panic.
	Before func(step label.Step, id session.ID, exchange string)
	// Clean removes secrets and personal data from a panic's text, which may quote a conversation. If Clean is nil, a
	// fixed text is stored instead.
	Clean         func(text string) string
	SetAsideCount *atomic.Int64 // counts SetAside calls; may be nil
}

// Marks is a store for the marks on sessions and exchanges where a step panicked.
type Marks interface {
	SetAside(ctx context.Context, list []session.DeadLetter) error
	Readmit(ctx context.Context, limit int) (int, error)
}

// Guard runs steps, and marks each session or exchange where a step panicked in this program run. A Guard is safe for
// concurrent use.
type Guard struct {
	options Options

	mu      sync.Mutex
	skipped map[session.Ref]bool // in this program run
	pending []session.DeadLetter // not stored yet
}

// New returns a Guard without marks.
func New(o Options) *Guard {
	if o.SetAsideCount == nil {
		o.SetAsideCount = new(atomic.Int64)
	}
	return &Guard{options: o, skipped: map[session.Ref]bool{}}
}

// Run runs a step. ok is false if the step panicked.
func (g *Guard) Run(step label.Step, f func()) (ok bool) {
	defer func() {
		if v := recover(); v != nil {
			g.options.OnPanic(step, v)
		}
	}()
	f()
	return true
}

// RunErr runs a step that returns an error. After a panic, RunErr returns ErrPanicked.
func (g *Guard) RunErr(step label.Step, f func() error) (err error) {
	if !g.Run(step, func() { err = f() }) {
		return fmt.Errorf("%s: %w", step, ErrPanicked)
	}
	return err
}

// RunOn runs a step on a session, or on the exchange with the id. If the step panics, RunOn calls SetAside.
func (g *Guard) RunOn(step label.Step, ref session.Ref, exchange string, f func()) (ok bool) {
	defer func() {
		if v := recover(); v != nil {
			g.options.OnPanic(step, v)
			g.SetAside(step, ref, exchange, v)
		}
	}()
	g.Before(step, ref.ID, exchange)
	f()
	return true
}

// Before calls Options.Before. Workers that recover from panics themselves call this method directly.
func (g *Guard) Before(step label.Step, id session.ID, exchange string) {
	if g.options.Before != nil {
		g.options.Before(step, id, exchange)
	}
}

// SetAside marks a session after a panic or, with an exchange id, marks only the exchange. StorePending stores the
// mark. cause is the panic value.
func (g *Guard) SetAside(step label.Step, ref session.Ref, exchange string, cause any) {
	g.options.SetAsideCount.Add(1)
	text, _, _ := strings.Cut(fmt.Sprint(cause), "\n") // a stack may follow the first line
	text = g.clean(text[:min(len(text), maxPanicBytes)])
	g.mu.Lock()
	defer g.mu.Unlock()
	if exchange == "" && len(g.skipped) < maxMarks {
		g.skipped[ref] = true
	}
	if len(g.pending) < maxMarks {
		g.pending = append(g.pending, session.DeadLetter{
			Tenant: ref.Tenant, ID: ref.ID, Exchange: exchange, Step: string(step), Why: text, At: g.options.Now(),
		})
	}
}

// clean returns text without secrets and personal data, or a fixed text if Options.Clean is nil or panics.
func (g *Guard) clean(text string) (clean string) {
	if g.options.Clean == nil || !g.Run(label.StepRedact, func() { clean = g.options.Clean(text) }) {
		return "(text removed)"
	}
	return clean
}

// IsSkipped reports whether a session is skipped in this program run.
func (g *Guard) IsSkipped(ref session.Ref) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.skipped[ref]
}

// StorePending stores the pending marks. After an error that is not permanent, the marks stay pending.
func (g *Guard) StorePending(ctx context.Context, marks Marks) {
	g.mu.Lock()
	list := g.pending
	g.pending = nil
	g.mu.Unlock()
	if len(list) == 0 {
		return
	}
	remaining := g.storeMarks(ctx, marks, list)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending = append(remaining, g.pending[:min(len(g.pending), max(maxMarks-len(remaining), 0))]...)
}

// storeMarks stores marks, and returns the marks to try again later. If the store refuses the list permanently,
// storeMarks tries each mark alone, and drops the marks that are refused.
func (g *Guard) storeMarks(ctx context.Context, marks Marks, list []session.DeadLetter) (remaining []session.DeadLetter) {
	err := g.RunErr(label.StepSetAside, func() error { return marks.SetAside(ctx, list) })
	if err == nil {
		return nil
	}
	if !IsPermanent(err) || len(list) == 1 {
		g.options.OnFailure(label.StepSetAside, err)
	}
	switch {
	case !IsPermanent(err):
		return list
	case len(list) > 1:
		for i := range list {
			remaining = append(remaining, g.storeMarks(ctx, marks, list[i:i+1])...)
		}
	}
	return remaining
}

// Readmit lets workers retry the sessions and exchanges that earlier program runs marked, up to MaxTries times.
func (g *Guard) Readmit(ctx context.Context, from Marks) {
	err := g.RunErr(label.StepReadmit, func() error { _, err := from.Readmit(ctx, MaxTries); return err })
	if err != nil && ctx.Err() == nil {
		g.options.OnFailure(label.StepReadmit, err)
	}
}
