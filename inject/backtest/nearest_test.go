package backtest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"precept/inject/backtest"
	"precept/inject/lesson"
	"precept/internal/sample"
)

// For a lesson that matched, Nearest returns the phrase that matched. For any other lesson, it returns the condition
// that was not met.
func TestNearestNamesTheMissingCondition(t *testing.T) {
	newLesson := func(slug string, state lesson.State, keywords ...string) *lesson.Lesson {
		l := &lesson.Lesson{Slug: slug, State: state, Title: slug, Body: "Do it."}
		l.Trigger.Keywords = keywords
		return l
	}
	book := lesson.NewBook([]*lesson.Lesson{
		newLesson("half", lesson.Active, "database migration"), newLesson("candidate", lesson.Candidate, "flaky test"), newLesson("far", lesson.Active, "unrelated words"),
		newLesson("matched", lesson.Active, "flaky test"),
	})
	ex := []sample.Exchange{{Turn: 1, Dialect: "chat", New: []json.RawMessage{json.RawMessage(`{"role":"user","content":"The flaky test needs a database."}`)}}}
	got := map[string]string{}
	for _, m := range backtest.Nearest(t.Context(), book, lesson.NewTagger(nil), "default", ex, []string{"matched"}) {
		got[m.Slug] = m.Why
		if m.Matched != (m.Slug == "matched") {
			t.Errorf("%s: Matched = %v, want true only for the lesson \"matched\"", m.Slug, m.Matched)
		}
	}
	if want := `keyword "flaky test" in the user's message`; got["matched"] != want {
		t.Errorf("lesson \"matched\": Why = %q, want %q", got["matched"], want)
	}
	if len(got) != 3 || !strings.Contains(got["half"], `only "database" occurs`) || !strings.Contains(got["candidate"], "only lessons in the states active, trial, caution and benched fire") {
		t.Errorf("nearest lessons = %q, want \"half\" with the nearest phrase, and \"candidate\" with the state", got)
	}
}

func TestNearestSkipsOtherTenants(t *testing.T) {
	newLesson := func(slug, tenant, keyword string) *lesson.Lesson {
		l := &lesson.Lesson{Slug: slug, State: lesson.Active, Title: slug, Body: "Do it."}
		l.Scope.Tenant, l.Trigger.Keywords = tenant, []string{keyword}
		return l
	}
	book := lesson.NewBook([]*lesson.Lesson{
		newLesson("trigger", "others", "flaky test"), newLesson("phrase", "others", "database migration"), newLesson("own", "ours", "database migration"),
	})
	ex := []sample.Exchange{{Turn: 1, Dialect: "chat", New: []json.RawMessage{json.RawMessage(`{"role":"user","content":"The flaky test needs a database."}`)}}}
	got := backtest.Nearest(t.Context(), book, lesson.NewTagger(nil), "ours", ex, nil)
	if len(got) != 1 || got[0].Slug != "own" {
		t.Errorf("nearest lessons = %+v, want only the lesson \"own\"", got)
	}
}

func TestNearestReadsTheNewestQueries(t *testing.T) {
	l := &lesson.Lesson{Slug: "a", State: lesson.Candidate, Title: "a", Body: "Do it."}
	l.Trigger.Keywords = []string{"flaky test"}
	book := lesson.NewBook([]*lesson.Lesson{l})
	var ex []sample.Exchange
	add := func(text string) {
		item := fmt.Sprintf(`{"role":"user","content":%q}`, text)
		ex = append(ex, sample.Exchange{Turn: len(ex) + 1, Dialect: "chat", New: []json.RawMessage{json.RawMessage(item)}})
	}
	add("The flaky test fails.")
	for range 30 {
		add("Continue.")
	}
	countNearest := func(ctx context.Context) int {
		return len(backtest.Nearest(ctx, book, lesson.NewTagger(nil), "default", ex, nil))
	}
	if n := countNearest(t.Context()); n != 0 {
		t.Errorf("got %d lessons for a match 31 turns ago, want none", n)
	}
	add("The flaky test fails.")
	if n := countNearest(t.Context()); n != 1 {
		t.Errorf("got %d lessons for a match in the newest turn, want 1", n)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if n := countNearest(ended); n != 0 {
		t.Errorf("got %d lessons with a cancelled context, want none", n)
	}
}
