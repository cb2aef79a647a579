package server

import (
	"cmp"
	"context"
	"math"
	"time"

	"precept/inject/lesson"
)

// indexLimit is how long writing the index may take.
const indexLimit = 10 * time.Second

// reindex writes the index of a directory of lessons anew when somebody has changed the lessons by
// hand, with what was counted of them. A directory that cannot be written has no index, and works
// without.
func (p *parts) reindex() {
	ctx, cancel := context.WithTimeout(context.Background(), indexLimit)
	defer cancel()
	if err := p.writer.Reindex(ctx); err != nil {
		p.log.Debug("the index of the lessons could not be written", "error", err)
	}
}

// counts are the successes and failures of the sessions that had a lesson as it stands now, in the
// default tenant or its own.
func (p *parts) counts(slug string) lesson.Counts {
	l, ok := p.book.Load().Get(slug)
	if !ok || p.proxy == nil {
		return lesson.Counts{}
	}
	text, counters := l.Text(), p.learner.Beliefs(cmp.Or(l.Scope.Tenant, "default"))
	good, bad := counters.RawCounts(p.proxy.Presentation().Present(l, &text, counters).Arm)
	return lesson.Counts{Success: int(math.Round(good)), Failure: int(math.Round(bad))}
}
