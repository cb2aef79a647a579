package main

import (
	"context"

	"precept/bandit/report"
	"precept/configs"
	"precept/distill"
	"precept/inject/lesson"
)

// opinionsOf sums what judges said of a lesson's present text, over all tenants that may get it;
// nil when they said nothing, or when there is no store that can be read: a lesson is shown without
// one.
func (w *world) opinionsOf(
	ctx context.Context, cfg *configs.Config, l *lesson.Lesson,
) *report.Opinions {
	if storeless(cfg) {
		return nil
	}
	db, err := w.OpenStored(ctx, cfg)
	if err != nil {
		return nil
	}
	defer db.Close() //nolint:errcheck // only read
	tenants, err := db.Tenants(ctx)
	if err != nil {
		return nil
	}
	var sum report.Opinions
	for _, tenant := range tenants {
		if l.Scope.Tenant != "" && l.Scope.Tenant != tenant {
			continue
		}
		opinions, err := distill.ReadOpinions(ctx, db, tenant)
		if err != nil {
			return nil
		}
		sum.Merge(opinions[l.Slug+"@"+l.Arm()])
	}
	if sum.Total() == 0 {
		return nil
	}
	return &sum
}
