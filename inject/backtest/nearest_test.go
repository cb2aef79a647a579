package backtest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"precept/inject/backtest"
	"precept/inject/lesson"
	"precept/internal/sample"
)

// Nearest names the missing condition or the nearest phrase, and leaves out lessons that matched.
func TestNearestNamesTheMissingCondition(t *testing.T) {
	of := func(slug string, state lesson.State, keywords ...string) *lesson.Lesson {
		l := &lesson.Lesson{Slug: slug, State: state, Title: slug, Body: "Do it."}
		l.Trigger.Keywords = keywords
		return l
	}
	book := lesson.NewBook([]*lesson.Lesson{
		of("half", lesson.Active, "database migration"), of("paused", lesson.Candidate, "flaky test"), of("far", lesson.Active, "unrelated words"),
		of("matched", lesson.Active, "flaky test"),
	})
	ex := []sample.Exchange{{Turn: 1, Dialect: "chat", New: []json.RawMessage{json.RawMessage(`{"role":"user","content":"The flaky test needs a database."}`)}}}
	got := map[string]string{}
	for _, m := range backtest.Nearest(book, lesson.NewTagger(nil), "default", ex, []string{"matched"}) {
		got[m.Slug] = m.Why
	}
	if len(got) != 2 || !strings.Contains(got["half"], `only "database" of it occurs`) || !strings.Contains(got["paused"], "only lessons in trial, active or caution fire") {
		t.Errorf("got %q, want half by its nearest phrase and paused by its state", got)
	}
}
