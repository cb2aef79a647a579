package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"precept/inject/lesson"
	"precept/internal/label"
	"precept/internal/redact"
	"precept/internal/session"
	"precept/store"
)

// lessons takes a book into force, and tells what is wrong in the bank.
func (p *parts) lessons(b *lesson.Book, problems []lesson.Problem) {
	old := p.book.Swap(b)
	p.problems.Store(int64(len(problems)))
	for i := range problems {
		p.log.Warn(
			"a lesson file is not in force", "fault", problems[i].Error(), "kept", problems[i].Kept,
		)
	}
	if old == nil || old.Hash() != b.Hash() {
		p.log.Info("lessons in force", "count", inForce(b, p.Now()), "book", b.Hash())
	}
}

// inForce counts the lessons of a book that may speak: others wait, or were put away.
func inForce(b *lesson.Book, now time.Time) (n int) {
	for _, l := range b.Lessons() {
		if state, _ := b.StateAt(l.Slug, now); state.Fires() {
			n++
		}
	}
	return n
}

// failed tells of a step that went wrong beside the requests, a line for each step every ten
// seconds at most; of a store that is away a line a minute, whichever step met it. One that a stop
// interrupts has not failed: the next start takes it up.
func (p *parts) failed(step label.Step, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	p.metrics.FailedOpen(step)
	if errors.Is(err, session.ErrUnavailable) {
		if p.quiet.allowEvery(label.StepStore, time.Minute) {
			p.log.Warn(
				"the store is not available; what it should have waits", "step", step, "error", err,
			)
		}
		return
	}
	if p.quiet.allow(step) {
		p.log.Warn("a step failed; requests go on without it", "step", step, "error", err)
	}
}

// panicked tells of a step that panicked, and of nothing that it was taken at but the request's id.
func (p *parts) panicked(step label.Step, value any) {
	p.metrics.FailedOpen(step)
	if !p.quiet.allow(step) {
		return
	}
	log := p.log
	if at, ok := value.(store.AtRequest); ok {
		log, value = log.With("request", at.Request), at.Value
	}
	log.Error(
		"a step panicked; requests go on without it", "step", step, "panic",
		redact.PanicKind(value),
	)
}

// limiter lets one line a step through every ten seconds.
type limiter struct {
	now  func() time.Time
	mu   sync.Mutex
	last map[label.Step]time.Time
}

func newLimiter(now func() time.Time) *limiter {
	return &limiter{now: now, last: map[label.Step]time.Time{}}
}

func (l *limiter) allow(step label.Step) bool { return l.allowEvery(step, 10*time.Second) }

func (l *limiter) allowEvery(step label.Step, every time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if now.Sub(l.last[step]) < every {
		return false
	}
	l.last[step] = now
	return true
}
