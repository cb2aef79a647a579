package distill

import (
	"context"
	"errors"

	"precept/inject/lesson"
)

// Judge reads a session and returns drafts and opinions. It is safe for concurrent use.
type Judge interface {
	Name() string // kind and model; the key for the judge's notes on sessions
	Judge(ctx context.Context, s *Session, injected []*lesson.Lesson) (Judgement, error)
}

// Opinions holds a judge's opinions about injected lessons, by slug: followed, ignored, irrelevant or contradicted. No
// measured effect uses them.
type Opinions map[string]string

// Judgement is a judge's answer.
type Judgement struct {
	Opinions Opinions
	Drafts   []Draft
	Usage    Usage
}

// Usage holds the tokens in a question and in the answer.
type Usage struct{ Input, Output int64 }

func (u *Usage) add(o Usage) { u.Input, u.Output = u.Input+o.Input, u.Output+o.Output }

// Budget limits how much a judge is used in one distiller run.
type Budget struct {
	Tokens                  int64   // 0 means no limit
	Cost                    float64 // maximum cost, in the currency of the prices; 0 means no limit
	InputPrice, OutputPrice float64 // prices per million tokens, in questions and in answers
}

func (b *Budget) cost(u Usage) float64 {
	return (float64(u.Input)*b.InputPrice + float64(u.Output)*b.OutputPrice) / 1e6
}

// stopReason returns why to stop asking, or "" if the budget permits one more question. pending is the number of open
// questions, which are assumed to have the average cost.
func (b *Budget) stopReason(s *Summary, pending int) string {
	factor := 1.0 // expected use after the open questions, relative to now
	if n := s.Judged + s.Failed; n > 0 {
		factor += float64(pending) / float64(n)
	}
	switch {
	case b.Tokens > 0 && float64(s.Tokens)*factor >= float64(b.Tokens):
		return "distill.max_tokens is reached; the next run reads the remaining sessions"
	case b.Cost > 0 && s.Cost*factor >= b.Cost:
		return "distill.max_cost is reached; the next run reads the remaining sessions"
	}
	return ""
}

// share returns the budget for the next of n tenants: the amount used so far, plus an equal share of what is left.
func (b Budget) share(s *Summary, n int) Budget {
	if rest := b.Tokens - s.Tokens; rest > 0 {
		b.Tokens = s.Tokens + (rest+int64(n)-1)/int64(n)
	}
	if rest := b.Cost - s.Cost; rest > 0 {
		b.Cost = s.Cost + rest/float64(n)
	}
	return b
}

// ErrUnusable is the error for an unusable answer. Later runs ask again, up to maxUnusable times.
var ErrUnusable = errors.New("the judge's answer cannot be used")
