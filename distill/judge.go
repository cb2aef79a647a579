package distill

import (
	"context"
	"errors"

	"precept/inject/lesson"
)

// Judge reads a session for what can be learned from it. It may be asked by several goroutines at
// once.
type Judge interface {
	Name() string // of the kind and model, as it is noted
	Judge(ctx context.Context, s *Session, inForce []*lesson.Lesson) (Judgement, error)
}

// Opinions are what a judge thinks that lessons in force did in a run, by slug: followed, ignored,
// irrelevant or contradicted. They are opinions: no effect and no counter knows them.
type Opinions map[string]string

// Judgement is a judge's answer.
type Judgement struct {
	Opinions Opinions
	Drafts   []Draft
	Usage    Usage
}

// Usage is what an answer took.
type Usage struct{ Input, Output int64 }

func (u *Usage) add(o Usage) { u.Input, u.Output = u.Input+o.Input, u.Output+o.Output }

// Budget bounds what one run of a judge may take; zero bounds nothing.
type Budget struct {
	Tokens           int64
	Cost             float64
	PerInput, PerOut float64 // price of a million tokens
}

func (b *Budget) cost(u Usage) float64 {
	return (float64(u.Input)*b.PerInput + float64(u.Output)*b.PerOut) / 1e6
}

// spent says why no more may be asked, "" while it may. Each of the questions that are open is
// taken to cost what the answered ones did on average.
func (b *Budget) spent(s *Summary, open int) string {
	share := 1.0
	if n := s.Judged + s.Failed; n > 0 {
		share += float64(open) / float64(n)
	}
	switch {
	case b.Tokens > 0 && float64(s.Tokens)*share >= float64(b.Tokens):
		return "distill.max_tokens is used up; the rest is read next time"
	case b.Cost > 0 && s.Cost*share >= b.Cost:
		return "distill.max_cost is used up; the rest is read next time"
	}
	return ""
}

// ErrUnusable says that a judge's answer cannot be used: the session is passed over, and read again
// next time.
var ErrUnusable = errors.New("the judge's answer cannot be used")
