package distill

import (
	"context"
	"errors"
	"fmt"

	"precept/lesson"
)

// ask has a judge read a session.
func (w *work) ask(ctx context.Context, s *Session, m *mark) error {
	if why := w.o.Budget.spent(w.sum); why != "" {
		w.sum.Stopped = why
		return errEnough
	}
	var inForce []*lesson.Lesson
	for _, slug := range s.InForce {
		if l, ok := w.book.Get(slug); ok {
			inForce = append(inForce, l)
		}
	}
	got, err := w.o.Judge.Judge(ctx, s, inForce)
	w.sum.Tokens += got.Usage.Input + got.Usage.Output
	w.sum.Cost += w.o.Budget.cost(got.Usage)
	if errors.Is(err, ErrUnusable) {
		w.sum.Failed++
		w.o.Failed("session "+s.ID, err)
		m.Hash = "" // it is read again next time
		return nil
	}
	if err != nil && ctx.Err() == nil && breakdown(err) {
		w.sum.Failed++
		m.Hash = ""
		if w.down++; w.down < maxDown {
			w.o.Failed("session "+s.ID, err)
			w.broke = err
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("distill: the judge: %w", err)
	}
	w.down, w.broke = 0, nil
	w.sum.Judged++
	w.opine(s, m, got.Opinions)
	for i := range got.Drafts {
		d := &got.Drafts[i]
		w.sum.Candidates++
		d.Refs, d.Sightings = []Ref{read(s).ref}, 1
		if err := w.propose(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// opine notes what the judge thinks of the lessons that were in force, in place of what was thought before.
func (w *work) opine(s *Session, m *mark, of Opinions) {
	m.Said, m.Texts = Opinions{}, textNames{}
	for i, slug := range s.InForce {
		l, known := w.book.Get(slug)
		said := of[slug]
		if !known || said == "" {
			continue
		}
		m.Said[slug], m.Texts[slug] = said, textOf(s.arms[i], l)
		w.sum.Opinions++
	}
}

// maxDown is after how many breakdowns in a row the judge is taken to be down; before that it may be the run.
const maxDown = 3

// breakdown: the judge had no answer in time, or failed itself.
func breakdown(err error) bool {
	var status *errStatus
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &status) && status.code >= 500
}
