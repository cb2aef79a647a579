package backtest_test

import (
	"encoding/json"
	"fmt"

	"precept/inject/backtest"
	"precept/inject/lesson"
	"precept/internal/sample"
)

func ExampleEvaluator() {
	run := backtest.New([]*lesson.Lesson{{
		Slug: "verify-page-id", State: lesson.Quarantined, Trigger: lesson.Trigger{Keywords: []string{"load more", "next page"}},
	}}, nil)
	for name, text := range map[string]string{"one": "Please load more.", "two": "Load the list.", "three": "Load more rows."} {
		message := json.RawMessage(fmt.Sprintf(`{"role":"user","content":%q}`, text))
		run.Add(&backtest.Session{Name: name, Exchanges: []sample.Exchange{{Dialect: "chat", New: []json.RawMessage{message}}}})
	}
	r := run.Result("verify-page-id")
	fmt.Printf("would have fired in %d of %d sessions, by %v; never by %q\n", r.Matched, r.Sessions, r.Words, r.SilentTriggers)
	// Output: would have fired in 2 of 3 sessions, by [{load more 2}]; never by ["next page"]
}
