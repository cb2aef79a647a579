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

// question is a question to a judge about one session. The goroutine that calls the judge writes answer and err, and
// then closes done. Only the goroutine that walks over the sessions uses the other fields.
type question struct {
	id                  session.ID
	counted             bool // the first round has counted the session
	session             *Session
	marks               map[string]judgeMark // by judge: what the judge has read and counted in the session
	storedMark, newMark judgeMark            // this judge's entry in marks, and the new entry
	done                chan struct{}
	answer              Judgement
	err                 error
}

// ask starts a question to the judge, and waits for the oldest answer only if too many questions are open. Answers are
// recorded in session order.
func (w *tenantDistiller) ask(ctx context.Context, q *question) error {
	if why := w.budget.stopReason(w.summary, len(w.judging.openQuestions)); why != "" {
		w.summary.Stopped = why
		return errStopWalk
	}
	var injected []*lesson.Lesson
	for _, slug := range q.session.Injected {
		if l, ok := w.book.Get(trial.LessonSlug(slug)); ok {
			injected = append(injected, l)
		}
	}
	w.reached[q.id] = true
	q.session.Near = w.similarLessons(q.session)
	q.done = make(chan struct{})
	w.judging.openQuestions = append(w.judging.openQuestions, q)
	go func() {
		defer close(q.done)
		defer func() {
			if v := recover(); v != nil {
				q.err = &panicError{v, debug.Stack()}
			}
		}()
		q.answer, q.err = w.Distiller.o.Judge.Judge(ctx, q.session, injected)
	}()
	if len(w.judging.openQuestions) < w.Distiller.o.Parallel {
		return nil
	}
	return w.awaitOldest(ctx)
}

func (w *tenantDistiller) awaitOldest(ctx context.Context) error {
	q := w.judging.openQuestions[0]
	<-q.done
	w.judging.openQuestions = w.judging.openQuestions[1:]
	if err := w.recordAnswer(ctx, q); err != nil {
		return err
	}
	return w.writeMarks(ctx, q.id, q.marks, &q.storedMark, &q.newMark)
}

// drain waits for the answers to all open questions, and returns err or an error from recording. After an error other
// than errStopWalk, the answers are dropped, and the next run reads those sessions again.
func (w *tenantDistiller) drain(ctx context.Context, err error) error {
	for len(w.judging.openQuestions) > 0 {
		if err == nil || errors.Is(err, errStopWalk) {
			if awaitErr := w.awaitOldest(ctx); awaitErr != nil {
				err = awaitErr
			}
			continue
		}
		<-w.judging.openQuestions[0].done
		w.judging.openQuestions = w.judging.openQuestions[1:]
	}
	return err
}

// panicError is a panic in a judge or in the rules while they process one session.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string {
	return fmt.Sprintf("panic: %s\n%s", redact.SafePanicText(e.value), e.stack)
}

// recordAnswer records an answer. After an error or panic that concerns only this session, it reports the error, and
// the walk continues.
func (w *tenantDistiller) recordAnswer(ctx context.Context, q *question) error {
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
		q.newMark.Tries = 0
		w.reportFailure(q.session, q.err)
		return nil
	case errors.Is(q.err, errSetAside):
		q.newMark.Tries = maxUnusable
		w.summary.SetAside++
		w.reportFailure(q.session, q.err)
		return nil
	case errors.Is(q.err, ErrUnusable):
		if q.newMark.Tries++; q.newMark.isSetAside() {
			w.summary.SetAside++
		}
		w.reportFailure(q.session, q.err)
		return nil
	case ctx.Err() == nil && isJudgeFailure(q.err) && w.judging.consecutiveErrors+1 < maxJudgeFailures:
		w.judging.consecutiveErrors, w.judging.lastError = w.judging.consecutiveErrors+1, q.err
		if q.newMark.Tries == 0 {
			q.newMark.Hash = "" // the next run asks the judge again
		}
		w.reportFailure(q.session, q.err)
		return nil
	default:
		w.judging.lastError = q.err
		return q.err
	}
	w.judging.consecutiveErrors, w.judging.lastError, q.newMark.Tries = 0, nil, 0
	w.summary.Judged++
	w.setOpinions(q.session, &q.newMark, q.answer.Opinions)
	for i := range q.answer.Drafts {
		d := &q.answer.Drafts[i]
		w.summary.Candidates++
		d.Refs, d.Sightings, d.mark = []Ref{parseSession(q.session, w.orgWords).ref}, 1, &q.newMark
		switch err := w.proposeJudged(ctx, q.session, d); {
		case errors.Is(err, errFull): // no mark is stored: the next run reads the session again
			w.summary.Stopped = stoppedByBank
			return errStopWalk
		case err != nil:
			return err
		}
	}
	return nil
}

// proposeJudged proposes a judge's draft, or adds the session as evidence to the existing lesson that the draft names.
// It refuses a draft that names persons, has data from one session, or has only broad triggers.
func (w *tenantDistiller) proposeJudged(ctx context.Context, s *Session, d *Draft) error {
	if old, known := w.book.Get(d.SameAs); known && d.SameAs != "" {
		return w.addEvidence(ctx, d, old)
	}
	_, isModel := w.Distiller.o.Judge.(*model)
	why := ""
	if isModel {
		why = d.sessionSpecificReason(s)
	}
	if why = cmp.Or(why, w.dropBroadTriggers(d)); why != "" {
		w.summary.refuse(d, "", why)
		return nil
	}
	return w.propose(ctx, d)
}

func (w *tenantDistiller) reportFailure(s *Session, err error) {
	w.summary.Failed++
	w.Distiller.o.OnFailure(s.ID, err)
}

func (w *tenantDistiller) setOpinions(s *Session, m *judgeMark, opinions Opinions) {
	m.Opinions, m.Texts = Opinions{}, textNames{}
	for i, slug := range s.Injected {
		l, known := w.book.Get(trial.LessonSlug(slug))
		opinion := opinions[trial.LessonSlug(slug)]
		if !known || opinion == "" {
			continue
		}
		m.Opinions[slug], m.Texts[slug] = opinion, textKey(s.arms[i], l)
		w.summary.Opinions++
	}
}

// maxUnusable is the number of unusable answers after which a session is set aside: the judge is not asked again until
// the session's content changes.
const maxUnusable = 3

// maxJudgeFailures is the number of consecutive judge failures that ends the run. One session's content rarely causes
// so many failures in a row.
const maxJudgeFailures = 3

// isJudgeFailure reports whether the judge or the session's content may have caused an error.
func isJudgeFailure(err error) bool {
	var status *statusError
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &status) && status.mayBlameSession()
}
