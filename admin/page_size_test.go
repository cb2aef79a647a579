//go:build !race

package admin_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"precept/admin"
	"precept/bandit/report"
	"precept/configs"
	"precept/inject/backtest"
	"precept/inject/lesson"
	"precept/internal/sample"
	"precept/store"
)

const maxPageSize = 1 << 20 // bytes

func TestLargePagesAreTruncatedWithANote(t *testing.T) {
	manyWords := strings.Repeat("lorem ipsum ", 1<<20/12)
	longWord := strings.Repeat("x", 1<<20)
	addLessons := func(state lesson.State) func(*wordSource, *admin.Options) {
		return func(source *wordSource, _ *admin.Options) {
			var all []*lesson.Lesson
			source.report.Lessons = nil
			for i := range 10_000 {
				slug := fmt.Sprintf("l-%05d", i)
				all = append(all, &lesson.Lesson{Slug: slug, State: state})
				row := report.Row{Slug: slug, Arm: slug, State: string(state), Verdict: report.Unproven, Picked: 1, Effect: new(0.1), Lo: new(0.0), Hi: new(0.2)}
				for range 2 {
					row.Days = append(row.Days, report.Band{Date: "2026-04-01", Effect: 0.1})
				}
				source.report.Lessons = append(source.report.Lessons, row)
			}
			source.book, source.findings = lesson.NewBook(all), nil
		}
	}
	fillLesson := func(source *wordSource, _ *admin.Options) {
		l := &lesson.Lesson{Slug: "word", Title: longWord, Body: manyWords, State: lesson.Candidate}
		l.Trigger.Description = longWord
		for i := range 5000 {
			l.Trigger.Keywords = append(l.Trigger.Keywords, fmt.Sprint("a keyword of some length ", i))
			l.Evidence = append(l.Evidence, lesson.Evidence{Ref: fmt.Sprint("s-", i), Note: "it went wrong"})
			source.findings = append(source.findings, lesson.Finding{Message: fmt.Sprint("something is not right at ", i)})
			source.events = append(source.events, lesson.Event{Slug: "word", Action: "edit", By: fmt.Sprint("agent ", i)})
			source.report.Lessons = append(source.report.Lessons, report.Row{Slug: "word", Arm: fmt.Sprint("word@", i), State: "edited"})
			source.backtest.Words = append(source.backtest.Words, backtest.SessionCount{Text: fmt.Sprint("word ", i), Sessions: i})
		}
		source.book = lesson.NewBook([]*lesson.Lesson{l})
	}
	fillTranscript := func(source *wordSource, _ *admin.Options) {
		source.transcript.Name, source.transcript.Agent, source.transcript.Model, source.transcript.TurnItems = longWord, longWord, longWord, nil
		for i := range store.TurnsShown {
			source.transcript.TurnItems = append(source.transcript.TurnItems, store.TurnItem{Turn: i, Model: longWord, Entries: []store.Entry{{Kind: "user", Text: "hello"}}})
		}
		for i := range 5000 {
			source.transcript.Picks = append(source.transcript.Picks, store.PickItem{Slug: fmt.Sprint("l-", i)})
			source.transcript.Rewarded.Sources = append(source.transcript.Rewarded.Sources, store.SourceItem{})
			source.transcript.Injected = append(source.transcript.Injected, fmt.Sprint("l-", i))
		}
	}
	fillLists := func(source *wordSource, _ *admin.Options) {
		source.list.Sessions, source.samples.Samples = nil, nil
		for range store.DefaultRows {
			x := store.SessionItem{ID: "s-1", Name: longWord, Agent: longWord, Model: longWord}
			for i := range 500 {
				x.Injected = append(x.Injected, fmt.Sprintf("a-lesson-of-some-length-%d", i))
			}
			source.list.Sessions = append(source.list.Sessions, x)
			source.samples.Samples = append(source.samples.Samples, store.SampleItem{Agent: longWord, Sample: sample.Sample{
				ID: "x", Input: map[string]any{"text": manyWords}, Output: map[string]any{"text": manyWords},
			}})
		}
	}
	fillHealth := func(source *wordSource, _ *admin.Options) {
		source.health.ReloadError, source.health.Store.Problem, source.health.Started = longWord, longWord, time.Unix(1e9, 0)
		source.health.Config = []configs.Setting{{Path: "key", Value: longWord, Default: "x", Changed: true}}
		source.figures = []admin.Figure{{Name: "Store", Value: longWord, Bad: true}}
	}
	for name, tc := range map[string]struct {
		target   string
		change   func(*wordSource, *admin.Options)
		wantText string
	}{
		"overview": {"/", addLessons(lesson.Active), "The first 25 of 10,000."}, "overview with long errors": {"/", fillHealth, "xxx…</a>"},
		"lessons": {"/lessons", addLessons(lesson.Active), "1 to 100 of 10,000"}, "queue": {"/queue", addLessons(lesson.Candidate), "1 to 20 of 10,000"},
		"queue with long texts": {"/queue?backtest=word", fillLesson, "and 4,900 more"}, "lesson": {"/lessons/word?backtest=1", fillLesson, "and 4,900 more"},
		"session": {"/sessions/s-1", fillTranscript, "and 4,902 more"}, "sessions": {"/sessions", fillLists, "and 400 more"},
		"samples": {"/samples", fillLists, "further bytes</pre>"}, "health": {"/health", fillHealth, "further bytes</code>"},
	} {
		page := mainText(t, tc.target, tc.change)
		if len(page) > maxPageSize {
			t.Errorf("%s: got a page of %d KiB, want at most %d KiB", name, len(page)>>10, maxPageSize>>10)
		}
		checkPage(t, name, page[:min(len(page), maxPageSize)], tc.wantText)
	}
}
