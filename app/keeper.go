package app

import (
	"context"
	"errors"
	"strings"

	"precept/admin"
	"precept/bank"
	"precept/configs"
	"precept/lesson"
)

// keeper is the admin face's way to the lessons. Where they are kept does not change while precept
// runs.
type keeper struct {
	*Tools
	cfg *configs.Config
}

// Act implements admin.Keeper.
func (k keeper) Act(
	ctx context.Context, slug string, seen lesson.Sight, a lesson.Action, plan lesson.TrialPlan,
	by string,
) (*lesson.Lesson, error) {
	if strings.ContainsAny(slug, "/\\") {
		return nil, admin.ErrNoLesson
	}
	r, err := k.ChangeLesson(ctx, k.cfg, slug, bank.Decision{
		Action: a, Plan: plan, By: by, Seen: seen,
	})
	if errors.Is(err, bank.ErrNoLesson) {
		err = admin.ErrNoLesson
	}
	return r.Lesson, err
}

// ChangeLesson changes a lesson where it is kept: in a directory, or in the Redis of a fleet.
func (w *Tools) ChangeLesson(
	ctx context.Context, cfg *configs.Config, slug string, d bank.Decision,
) (bank.Result, error) {
	b, closeBank, err := w.OpenWriter(cfg)
	if err != nil {
		return bank.Result{}, err
	}
	defer closeBank()
	ctx, cancel := context.WithTimeout(ctx, BankLimit)
	defer cancel()
	return b.Act(ctx, slug, d)
}
