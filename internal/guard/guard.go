// Package guard keeps a panic to what it happened at.
//
// The owners of goroutines take their steps through a Guard. A step that panics costs itself: the
// session or the exchange that it was taken at is set aside with a mark, everything beside and
// behind it goes on, and no panic ends an owner, let alone the program.
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

const (
	// Tries is how often a session is tried at which a step panicked: once in each run of the
	// program.
	Tries = 3
	// most bounds the marks in memory. A program that panics at more than that has other troubles.
	most     = 10_000
	whyBytes = 512
)

// ErrPanicked is what a step that panicked returns.
var ErrPanicked = errors.New("a step panicked")

// Poisoned says that the same can never be written.
func Poisoned(err error) bool {
	return errors.Is(err, session.ErrInvalid) || errors.Is(err, ErrPanicked)
}

// Options are what a guard is made of.
type Options struct {
	Now      func() time.Time
	Failed   func(step label.Step, err error)
	Panicked func(step label.Step, value any)
	// Before is called before each step that is taken on a session or, where it has an id, on an
	// exchange of it; nil: by nobody. A test makes a step panic with it.
	Before func(step label.Step, id session.ID, exchange string)
	// Clean takes out of a panic's text what must not reach a disk: it may quote what was being
	// read. nil: nothing of it is kept.
	Clean func(text string) string
	Count *atomic.Int64 // of what was set aside; nil: nobody asks
}

// Marks is where what is set aside is written down.
type Marks interface {
	SetAside(ctx context.Context, list []session.DeadLetter) error
	Readmit(ctx context.Context, most int) (int, error)
}

// Guard takes steps, and keeps the marks of this run: sessions and exchanges at which one panicked.
// It is safe for concurrent use.
type Guard struct {
	o Options

	mu      sync.Mutex
	known   map[session.Ref]bool // sessions that are not tried any more in this run
	waiting []session.DeadLetter // that are not written down yet
}

// New makes a guard.
func New(o Options) *Guard {
	if o.Count == nil {
		o.Count = new(atomic.Int64)
	}
	return &Guard{o: o, known: map[session.Ref]bool{}}
}

// Step runs one step. It says whether the step came to its end.
func (g *Guard) Step(step label.Step, f func()) (ok bool) {
	defer func() {
		if v := recover(); v != nil {
			g.o.Panicked(step, v)
		}
	}()
	f()
	return true
}

// Err is Step for a step that can fail by itself.
func (g *Guard) Err(step label.Step, f func() error) (err error) {
	if !g.Step(step, func() { err = f() }) {
		return fmt.Errorf("%s: %w", step, ErrPanicked)
	}
	return err
}

// On runs one step on one session, or on one exchange of it, which is set aside when the step
// panics.
func (g *Guard) On(step label.Step, of session.Ref, exchange string, f func()) (ok bool) {
	defer func() {
		if v := recover(); v != nil {
			g.o.Panicked(step, v)
			g.SetAside(step, of, exchange, v)
		}
	}()
	g.Before(step, of.ID, exchange)
	f()
	return true
}

// Before announces a step that its caller guards.
func (g *Guard) Before(step label.Step, id session.ID, exchange string) {
	if g.o.Before != nil {
		g.o.Before(step, id, exchange)
	}
}

// SetAside notes the mark of a session or an exchange.
func (g *Guard) SetAside(step label.Step, of session.Ref, exchange string, why any) {
	g.o.Count.Add(1)
	text, _, _ := strings.Cut(fmt.Sprint(why), "\n") // behind it stands at most a stack
	text = g.clean(text[:min(len(text), whyBytes)])
	g.mu.Lock()
	defer g.mu.Unlock()
	if exchange == "" && len(g.known) < most {
		g.known[of] = true
	}
	if len(g.waiting) < most {
		g.waiting = append(g.waiting, session.DeadLetter{
			Tenant: of.Tenant, ID: of.ID, Exchange: exchange, Step: string(step), Why: text, At: g.o.Now(),
		})
	}
}

func (g *Guard) clean(text string) (clean string) {
	if g.o.Clean == nil || !g.Step(label.StepRedact, func() { clean = g.o.Clean(text) }) {
		return "(not told)"
	}
	return clean
}

// IsAside says whether a session is not to be tried any more in this run.
func (g *Guard) IsAside(of session.Ref) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.known[of]
}

// Keep writes the marks down. Until they are taken they are tried again.
func (g *Guard) Keep(ctx context.Context, in Marks) {
	g.mu.Lock()
	list := g.waiting
	g.waiting = nil
	g.mu.Unlock()
	if len(list) == 0 {
		return
	}
	left := g.keep(ctx, in, list)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(left, g.waiting[:min(len(g.waiting), max(most-len(left), 0))]...)
}

// keep returns the marks that are to be tried again. Where one of them can never be written, each
// is written by itself, and the one to blame is told and let go of.
func (g *Guard) keep(ctx context.Context, in Marks, list []session.DeadLetter) (left []session.DeadLetter) {
	err := g.Err(label.StepSetAside, func() error { return in.SetAside(ctx, list) })
	if err == nil {
		return nil
	}
	if !Poisoned(err) || len(list) == 1 {
		g.o.Failed(label.StepSetAside, err)
	}
	switch {
	case !Poisoned(err):
		return list
	case len(list) > 1:
		for i := range list {
			left = append(left, g.keep(ctx, in, list[i:i+1])...)
		}
	}
	return left
}

// Readmit lets what earlier runs set aside be tried again, a bounded number of times.
func (g *Guard) Readmit(ctx context.Context, from Marks) {
	err := g.Err(label.StepReadmit, func() error { _, err := from.Readmit(ctx, Tries); return err })
	if err != nil && ctx.Err() == nil {
		g.o.Failed(label.StepReadmit, err)
	}
}
