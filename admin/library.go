package admin

import (
	"context"

	"precept/backtest"
	"precept/lesson"
	"precept/report"
)

// Library reads the lessons where they are kept, for the pages about them.
type Library interface {
	// Book is the lessons of every state, as they were last read.
	Book() *lesson.Book
	// Block is what a session of the tenant gets of a lesson, byte for byte.
	Block(tenant string, l *lesson.Lesson) string
	// Findings is what the checks have to say on a lesson.
	Findings(l *lesson.Lesson) []lesson.Finding
	// Log is the newest n events of the audit log, oldest first.
	Log(ctx context.Context, n int) ([]lesson.Event, error)
}

// Surveyor goes through stored sessions, for what the counters do not keep.
type Surveyor interface {
	// Survey is a look at the newest sessions of a tenant. It may take seconds; pages keep it.
	Survey(ctx context.Context, tenant string) (*report.Survey, error)
	// Backtest tells in which of the newest captured sessions of a tenant a lesson would have
	// fired.
	Backtest(ctx context.Context, tenant string, l *lesson.Lesson) (backtest.Result, error)
}
