package report_test

import (
	"fmt"
	"time"

	"precept/bandit/report"
)

func ExampleBuild() {
	r := report.Build(report.Input{
		Now:     time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC),
		Lessons: []report.Lesson{{Slug: "run-the-tests", Arm: "lesson:run-the-tests"}},
	})
	for _, row := range r.Lessons {
		fmt.Println(row.Slug, row.Verdict)
	}
	// Output: run-the-tests unproven
}
