package distill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"precept/bandit/trial"
	"precept/inject/lesson"
	"precept/internal/redact"
	"precept/internal/session"
)

// question is a session that a judge reads, with the notes to write. The judge's goroutine writes
// answer and err, and closes done. All other fields belong to the goroutine that walks over the
// sessions.
type question struct {
	row        session.Row
	session    *Session
	marks      map[string]mark
	last, next mark
	done       chan struct{}
	answer     Judgement
	err        error
}

// ask starts a judge on a session while the walk continues. At the maximum of parallel questions
// ask waits for the oldest, so that results are noted in the order of the sessions.
func (w *work) ask(ctx context.Context, q *question) error {
	if why := w.Distiller.o.Budget.stopReason(w.summary, len(w.judging.asked)); why != "" {
		w.summary.Stopped = why
		return errEnough
	}
	var inForce []*lesson.Lesson
	for _, slug := range q.session.InForce {
		if l, ok := w.book.Get(trial.LessonSlug(slug)); ok {
			inForce = append(inForce, l)
		}
	}
	q.session.Near = w.similarLessons(q.session)
	q.done = make(chan struct{})
	w.judging.asked = append(w.judging.asked, q)
	go func() {
		defer close(q.done)
		defer func() {
			if v := recover(); v != nil {
				q.err = &panicError{v, debug.Stack()}
			}
		}()
		q.answer, q.err = w.Distiller.o.Judge.Judge(ctx, q.session, inForce)
	}()
	if len(w.judging.asked) < w.Distiller.o.Parallel {
		return nil
	}
	return w.awaitOldest(ctx)
}

// awaitOldest waits for the oldest question and notes its answer.
func (w *work) awaitOldest(ctx context.Context) error {
	q := w.judging.asked[0]
	<-q.done
	w.judging.asked = w.judging.asked[1:]
	if err := w.recordAnswer(ctx, q); err != nil {
		return err
	}
	return w.writeMarks(ctx, q.row.ID, q.marks, &q.last, &q.next)
}

// drain waits for all open questions. After an error no further answer is noted; the sessions are
// read again next time.
func (w *work) drain(ctx context.Context, err error) error {
	for len(w.judging.asked) > 0 {
		if err == nil || errors.Is(err, errEnough) {
			if failed := w.awaitOldest(ctx); failed != nil {
				err = failed
			}
			continue
		}
		<-w.judging.asked[0].done
		w.judging.asked = w.judging.asked[1:]
	}
	return err
}

// panicError is the error of a judge that panicked.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string {
	return fmt.Sprintf("panic: %s\n%s", redact.PanicKind(e.value), e.stack)
}

// recordAnswer notes the answer of a judge. An error or panic of one session does not affect others.
func (w *work) recordAnswer(ctx context.Context, q *question) error {
	defer func() {
		if v := recover(); v != nil {
			w.reportFailure(q.session, &panicError{v, debug.Stack()})
		}
	}()
	w.summary.Tokens += q.answer.Usage.Input + q.answer.Usage.Output
	w.summary.Cost += w.Distiller.o.Budget.cost(q.answer.Usage)
	var broke *panicError
	switch {
	case q.err == nil:
	case errors.As(q.err, &broke):
		w.reportFailure(q.session, q.err)
		return nil
	case errors.Is(q.err, errSetAside):
		w.reportFailure(q.session, q.err)
		return nil
	case errors.Is(q.err, ErrUnusable):
		q.next.Hash = "" // read the session again next time
		w.reportFailure(q.session, q.err)
		return nil
	case ctx.Err() == nil && isJudgeFailure(q.err) && w.judging.errors+1 < maxJudgeFailures:
		w.judging.errors, w.judging.lastError = w.judging.errors+1, q.err
		q.next.Hash = ""
		w.reportFailure(q.session, q.err)
		return nil
	default:
		return fmt.Errorf("the judge: %w", q.err)
	}
	w.judging.errors, w.judging.lastError = 0, nil
	w.summary.Judged++
	w.setOpinions(q.session, &q.next, q.answer.Opinions)
	for i := range q.answer.Drafts {
		d := &q.answer.Drafts[i]
		w.summary.Candidates++
		d.Refs, d.Sightings, d.mark = []Ref{prepare(q.session, w.orgWords).ref}, 1, &q.next
		switch err := w.proposeJudged(ctx, q.session, d); {
		case errors.Is(err, errFull): // the session is not noted as read
			w.summary.Stopped = "the bank accepts no more lessons for now; the rest is read next time"
			return errEnough
		case err != nil:
			return err
		}
	}
	return nil
}

// proposeJudged proposes a draft of a model, unless the draft names an existing lesson, names a person, has
// words of one run, or has triggers that fire in too many captured sessions.
func (w *work) proposeJudged(ctx context.Context, s *Session, d *Draft) error {
	if old, known := w.book.Get(d.SameAs); known && d.SameAs != "" {
		return w.cite(ctx, d, old)
	}
	_, asked := w.Distiller.o.Judge.(*model)
	why := ""
	if asked {
		why = d.ofOneRun(s)
	}
	if why = cmp.Or(why, w.overbroad(d)); why != "" {
		w.summary.refuse(d, "", why)
		return nil
	}
	return w.propose(ctx, d)
}

// reportFailure reports a session that could not be judged.
func (w *work) reportFailure(s *Session, err error) {
	w.summary.Failed++
	w.Distiller.o.Failed(s.ID, err)
}

// setOpinions replaces the judge's earlier opinions about the lessons in the session.
func (w *work) setOpinions(s *Session, m *mark, opinions Opinions) {
	m.Opinions, m.Texts = Opinions{}, textNames{}
	for i, slug := range s.InForce {
		l, known := w.book.Get(trial.LessonSlug(slug))
		opinion := opinions[trial.LessonSlug(slug)]
		if !known || opinion == "" {
			continue
		}
		m.Opinions[slug], m.Texts[slug] = opinion, textOf(s.arms[i], l)
		w.summary.Opinions++
	}
}

// maxJudgeFailures is the number of consecutive failures after which the judge is considered down.
// Before that, the session may be the cause.
const maxJudgeFailures = 3

// isJudgeFailure reports whether the judge timed out, failed, or refused the request for an unknown
// reason. The reason may be the content of the session.
func isJudgeFailure(err error) bool {
	var status *errStatus
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &status) && (status.code >= 500 || status.refusesRequest())
}
