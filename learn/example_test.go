package learn_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"precept/bandit/feedback"
	"precept/internal/guard"
	"precept/internal/label"
	"precept/learn"
	"precept/store/sqlite"
)

// The example is a program that only reads the store: it opens a Learner and asks for a report. A server also sets
// Memory, Deliverer and Touches, and calls Run and Follow.
func Example() {
	now := func() time.Time { return time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC) }
	dir, _ := os.MkdirTemp("", "learn")
	defer func() { _ = os.RemoveAll(dir) }()
	db, err := sqlite.Open(context.Background(), sqlite.Options{Path: filepath.Join(dir, "precept.db"), Now: now})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = db.Close() }()

	learner, err := learn.Open(context.Background(), learn.Options{
		Now: now, Backend: db, Guard: guard.New(guard.Options{Now: now}),
		Reward:    feedback.Definition{CloseAfter: 24 * time.Hour, Tiers: []int{1, 2, 3}},
		OnFailure: func(step label.Step, err error) { fmt.Println(step, err) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := learner.Report(context.Background(), learn.ReportQuery{Tenant: "default"})
	fmt.Println(report.Global.NTreated+report.Global.NControl, "rewarded sessions,", len(report.Lessons), "lessons,", err)
	// Output: 0 rewarded sessions, 0 lessons, <nil>
}
