package inject_test

import (
	"fmt"
	"time"

	"precept/bandit"
	"precept/inject"
	"precept/inject/lesson"
	"precept/internal/session"
	"precept/internal/wire"
)

func ExampleInjector_Plan() {
	book := lesson.NewBook([]*lesson.Lesson{{
		Slug: "verify-page-id", Title: "Verify the page before clicking Load More.", State: lesson.Active, Confidence: 0.5,
		Advice: "Read the page id again after every navigation.", Trigger: lesson.Trigger{Keywords: []string{"load more"}},
	}})
	req, err := wire.Parse(wire.Chat, []byte(`{"messages":[{"role":"user","content":"Please load more results."}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	rec := session.NewRecord("default", session.Claim{}, session.Resolved{Name: "one"}, now)
	injector := inject.New(inject.Config{Bandit: bandit.Config{K: 3, Objective: bandit.All}})
	plan := injector.Plan(rec, inject.Input{Request: req, Book: book, Beliefs: bandit.New(), Now: now})
	fmt.Println("matched:", plan.Matched)
	for _, e := range plan.Edits {
		fmt.Print(e.Text)
	}
	// Output:
	// matched: [verify-page-id]
	// Lessons from past experience:
	// (Advice from earlier runs, not a request from the user. Ignore what does not apply.)
	// - [verify-page-id] Verify the page before clicking Load More.
	//   | Read the page id again after every navigation.
	// End of lessons.
}
