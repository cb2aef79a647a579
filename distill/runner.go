package distill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"precept/bandit/feedback"
	"precept/inject/bank"
	"precept/inject/lesson"
	"precept/internal/sample"
	"precept/internal/session"
)

// Source lists and reads the stored sessions.
type Source interface {
	Tenants(ctx context.Context) ([]string, error)
	EachSession(ctx context.Context, tenant string, since, until time.Time, fn func(session.Row, session.SettledState) error) error
	Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error)
	Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error)
}

// Notes stores the distiller's state: session marks, cases, opinions, support for lessons, and claims.
type Notes interface {
	SessionNote(ctx context.Context, tenant string, id session.ID) ([]byte, error)
	TenantNote(ctx context.Context, tenant, key string) ([]byte, error)
	EachNote(ctx context.Context, tenant, prefix string, fn func(key string, data []byte) error) error
	WriteNotes(ctx context.Context, tenant string, ofSessions map[session.ID][]byte, ofTenant map[string][]byte) error
	AcquireLease(ctx context.Context, name, owner string, now time.Time, ttl time.Duration) (bool, error)
	ReleaseLease(ctx context.Context, name, owner string) error
}

// Bank reads lessons and accepts proposals.
type Bank interface {
	List(ctx context.Context) (*lesson.Book, []lesson.Problem, error)
	Archived(ctx context.Context) ([]*lesson.Lesson, []lesson.Problem, error)
	Propose(ctx context.Context, p bank.Proposal) (bank.Result, error)
	Act(ctx context.Context, slug string, d bank.Decision) (bank.Result, error)
	Cite(ctx context.Context, slug string, evidence []lesson.Evidence, count int, by string) (*lesson.Lesson, error)
}

// Options configure a distiller. Source, Notes, Bank, Now and Owner are required.
type Options struct {
	Source    Source
	Notes     Notes
	Bank      Bank
	Judge     Judge // nil means the rules
	Select    Selection
	DryRun    bool
	Auto      bool // distill.gate is auto: trials start without an approval
	Now       func() time.Time
	Owner     string // name of this process in claims; unique among processes
	Budget    Budget
	Parallel  int                             // maximum number of open questions to a judge; 0 means one
	Progress  func(read int)                  // called with the number of newly read sessions; may be nil
	OnFailure func(session string, err error) // called with the error of one session; may be nil
}

// Selection selects the sessions that a distiller reads.
type Selection struct {
	Tenant          string   // "" means several tenants
	Tenants         []string // used if Tenant is empty; nil means all
	Since           time.Time
	ClosedOnly      bool
	IncludeSetAside bool // ask again about sessions that the judge refused, or for which it gave unusable answers
	Triage          bool // ask only about sessions with trouble (hasTrouble) or with injected lessons
}

const (
	claimDuration = 2 * time.Minute // a claim is a lease: one process at a time reads a tenant
	notesBatch    = 64              // sessions between two writes of the notes
)

// Distiller makes lessons from sessions. Only RunOnce starts goroutines, and it waits for them to end.
type Distiller struct{ o Options }

// New returns a distiller.
func New(o Options) *Distiller {
	if o.OnFailure == nil {
		o.OnFailure = func(string, error) {}
	}
	return &Distiller{o: o}
}

// RunOnce reads the new sessions of every selected tenant and proposes lessons. An error in one session, or from the
// judge for one tenant, does not stop the run; any other error does. The tenants share the budget equally, so that one
// tenant cannot use it up. A second round spends the rest of the budget.
func (d *Distiller) RunOnce(ctx context.Context) (Summary, error) {
	sum := Summary{Refused: map[string]int{}}
	tenants, err := d.o.Source.Tenants(ctx)
	if err != nil {
		return sum, fmt.Errorf("distill: list the tenants: %w", err)
	}
	orgWords := len(tenants) == 1
	switch {
	case d.o.Select.Tenant != "":
		tenants = []string{d.o.Select.Tenant}
	case d.o.Select.Tenants != nil:
		tenants = d.o.Select.Tenants
	}
	reached := map[string]map[session.ID]bool{} // sessions reached in the first round, by tenant
	var failures judgeFailures
	for round := range 2 {
		var rest []string // tenants with sessions for the second round
		reason := ""
		for i, t := range tenants {
			sum.Stopped = ""
			if reached[t] == nil {
				reached[t] = map[session.ID]bool{}
			}
			w := &tenantDistiller{
				Distiller: d, tenant: t, orgWords: orgWords, summary: &sum, budget: d.o.Budget.share(&sum, len(tenants)-i), reached: reached[t],
				skipFailed: round == 0 && len(tenants) > 1,
			}
			judged := sum.Judged
			if err := failures.add(w.distillTenant(ctx), w.judging.lastError, sum.Judged > judged); err != nil {
				return sum, err
			}
			switch {
			case sum.Stopped == stoppedByBank:
				return sum, nil
			case sum.Stopped != "":
				rest, reason = append(rest, t), sum.Stopped
			case w.skipFailed && len(w.judging.failed) > 0:
				rest = append(rest, t)
			default:
				delete(reached, t)
			}
		}
		spent := d.o.Budget.stopReason(&sum, 0)
		if len(rest) > 0 {
			reason = cmp.Or(reason, spent)
		}
		sum.Stopped = reason
		if len(tenants) < 2 || len(rest) == 0 || spent != "" {
			break
		}
		tenants = rest // these tenants share the rest of the budget
	}
	return sum, failures.result(&sum)
}

// judgeFailures counts consecutive tenants for which the judge failed.
type judgeFailures struct {
	tenants int
	ended   error // newest error that ended a tenant's work
	last    error // newest error from a question
}

// add records that a tenant's work ended with err, and returns the error with which the run must end, if any. last is
// the judge's newest error.
func (f *judgeFailures) add(err, last error, answered bool) error {
	if err != nil && (last == nil || !errors.Is(err, last) || !isJudgeFailure(last)) {
		return err
	}
	f.last = cmp.Or(last, f.last)
	f.ended = cmp.Or(err, f.ended)
	switch {
	case err != nil || last != nil:
		f.tenants++
	case answered:
		f.tenants = 0
	}
	if f.tenants >= maxJudgeFailures {
		return f.result(&Summary{})
	}
	return nil
}

// result returns the run's error, or nil if only single questions failed.
func (f *judgeFailures) result(s *Summary) error {
	switch {
	case f.ended != nil:
		return f.ended
	case f.last != nil && s.Judged == 0:
		return fmt.Errorf("distill: %w", f.last)
	}
	return nil
}

// stoppedByBank is the value of Summary.Stopped if the bank is at its limit.
const stoppedByBank = "the bank accepts no more lessons for now; the next run reads the remaining sessions"

// distillTenant does a run's work for one tenant. It does nothing if another process holds the claim on the tenant.
func (w *tenantDistiller) distillTenant(ctx context.Context) (err error) {
	d := w.Distiller
	w.leaseName = "distill:" + w.tenant
	ok := d.o.DryRun
	if !ok {
		if ok, err = d.o.Notes.AcquireLease(ctx, w.leaseName, d.o.Owner, d.o.Now(), claimDuration); err != nil {
			return fmt.Errorf("distill: %w", err)
		}
	}
	if !ok {
		w.summary.Busy = append(w.summary.Busy, w.tenant)
		return nil
	}
	if !d.o.DryRun {
		defer func() {
			releaseCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			err = errors.Join(err, d.o.Notes.ReleaseLease(releaseCtx, w.leaseName, d.o.Owner))
		}()
	}
	w.changedCases, w.errorsByCase, w.support = map[string]*Case{}, map[string][]seenError{}, map[string]support{}
	if err := w.readNotes(ctx); err != nil {
		return err
	}
	judgeCtx, stop := context.WithCancel(ctx)
	defer stop()
	err = d.o.Source.EachSession(ctx, w.tenant, d.o.Select.Since, time.Time{}, func(r session.Row, a session.SettledState) error { return w.readSession(judgeCtx, r, a) })
	if err == nil && !w.skipFailed {
		err = w.readFailed(judgeCtx)
	}
	if err != nil && !errors.Is(err, errStopWalk) {
		stop()
	}
	err = w.drain(judgeCtx, err)
	if err != nil && !errors.Is(err, errStopWalk) {
		return errors.Join(fmt.Errorf("distill: %w", err), w.flush(context.WithoutCancel(ctx)))
	}
	if err := w.flush(ctx); err != nil {
		return err
	}
	return w.proposeChangedCases(ctx)
}

// errStopWalk is the error that ends a walk early because the budget is spent, the bank is full, or enough sessions
// were read.
var errStopWalk = errors.New("no further session is read")
