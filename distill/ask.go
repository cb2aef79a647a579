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

// question is the question to a judge about one session. The judge's goroutine writes answer and err, and
// closes done. All other fields belong to the goroutine that walks over the sessions.
type question struct {
	row        session.Row
	session    *Session
	marks      map[string]mark // marks of the session by judge
	last, next mark            // stored mark of this judge, and the mark to store
	done       chan struct{}
	answer     Judgement
	err        error
}

// ask asks the judge about a session while the walk over the sessions continues. If the maximum number of questions
// is open, ask waits for the answer to the oldest question. Answers are recorded in the order of the sessions.
func (w *work) ask(ctx context.Context, q *question) error {
	if why := w.Distiller.o.Budget.stopReason(w.summary, len(w.judging.asked)); why != "" {
		w.summary.Stopped = why
		return errStopWalk
	}
	var injected []*lesson.Lesson
	for _, slug := range q.session.Injected {
		if l, ok := w.book.Get(trial.LessonSlug(slug)); ok {
			injected = append(injected, l)
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
		q.answer, q.err = w.Distiller.o.Judge.Judge(ctx, q.session, injected)
	}()
	if len(w.judging.asked) < w.Distiller.o.Parallel {
		return nil
	}
	return w.awaitOldest(ctx)
}

// awaitOldest waits for the answer to the oldest question and records the answer.
func (w *work) awaitOldest(ctx context.Context) error {
	q := w.judging.asked[0]
	<-q.done
	w.judging.asked = w.judging.asked[1:]
	if err := w.recordAnswer(ctx, q); err != nil {
		return err
	}
	return w.writeMarks(ctx, q.row.ID, q.marks, &q.last, &q.next)
}

// drain waits for the answers to all open questions. After an error, drain drops the answers, and the next run reads
// these sessions again.
func (w *work) drain(ctx context.Context, err error) error {
	for len(w.judging.asked) > 0 {
		if err == nil || errors.Is(err, errStopWalk) {
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

// panicError is the error of a session at which a judge or the rules panicked.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string {
	return fmt.Sprintf("panic: %s\n%s", redact.PanicKind(e.value), e.stack)
}

// recordAnswer records the answer of a judge. An error or panic of one session does not affect others.
func (w *work) recordAnswer(ctx context.Context, q *question) error {
	defer func() {
		if v := recover(); v != nil {
			w.reportFailure(q.session, &panicError{v, debug.Stack()})
		}
	}()
	w.summary.Tokens += q.answer.Usage.Input + q.answer.Usage.Output
	w.summary.Cost += w.Distiller.o.Budget.cost(q.answer.Usage)
	var panicked *panicError
	switch {
	case q.err == nil:
	case errors.As(q.err, &panicked):
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
		case errors.Is(err, errFull): // no mark is stored, so the next run reads the session again
			w.summary.Stopped = "the bank accepts no more lessons for now; the rest is read next time"
			return errStopWalk
		case err != nil:
			return err
		}
	}
	return nil
}

// proposeJudged proposes a draft of a judge. A draft that names an existing lesson adds evidence to the lesson.
// proposeJudged refuses a model's draft that names a person or has data of one session. It also refuses a draft
// whose triggers match too many captured sessions.
func (w *work) proposeJudged(ctx context.Context, s *Session, d *Draft) error {
	if old, known := w.book.Get(d.SameAs); known && d.SameAs != "" {
		return w.cite(ctx, d, old)
	}
	_, isModel := w.Distiller.o.Judge.(*model)
	why := ""
	if isModel {
		why = d.ofOneSession(s)
	}
	if why = cmp.Or(why, w.dropBroadTriggers(d)); why != "" {
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

// setOpinions replaces the judge's earlier opinions about the lessons that the session got.
func (w *work) setOpinions(s *Session, m *mark, opinions Opinions) {
	m.Opinions, m.Texts = Opinions{}, textNames{}
	for i, slug := range s.Injected {
		l, known := w.book.Get(trial.LessonSlug(slug))
		opinion := opinions[trial.LessonSlug(slug)]
		if !known || opinion == "" {
			continue
		}
		m.Opinions[slug], m.Texts[slug] = opinion, textOf(s.arms[i], l)
		w.summary.Opinions++
	}
}

// maxJudgeFailures is the number of consecutive failures of the judge that ends the run. After fewer failures, the
// content of a session may be the cause.
const maxJudgeFailures = 3

// isJudgeFailure reports whether the judge timed out, failed, or refused the request. The content of the session
// may be the reason.
func isJudgeFailure(err error) bool {
	var status *errStatus
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &status) && (status.code >= 500 || status.refusesRequest())
}
