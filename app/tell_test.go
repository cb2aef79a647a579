package app

import (
	"testing"
	"time"

	"precept/lesson"
)

// What waits for a person, was put away or was replaced is not counted as in force.
func TestInForce(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	book := lesson.NewBook([]*lesson.Lesson{
		{Slug: "speaks", State: lesson.Active},
		{Slug: "on-trial", State: lesson.Trial, Supersedes: []string{"replaced"}},
		{Slug: "waits", State: lesson.Candidate},
		{Slug: "refused", State: lesson.Rejected},
		{Slug: "replaced", State: lesson.Active},
		{Slug: "expired", State: lesson.Active, ExpiresAt: now.Add(-time.Hour)},
	})
	if n := inForce(book, now); n != 2 {
		t.Errorf("%d lessons are in force, want 2", n)
	}
}
