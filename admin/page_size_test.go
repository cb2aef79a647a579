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
		return func(f *wordSource, _ *admin.Options) {
			var all []*lesson.Lesson
			f.report.Lessons = nil
			for i := range 10_000 {
				slug := fmt.Sprintf("l-%05d", i)
				all = append(all, &lesson.Lesson{Slug: slug, State: state})
				row := report.Row{Slug: slug, Arm: slug, State: string(state), Verdict: report.Unproven, Picked: 1, Effect: new(0.1), Lo: new(0.0), Hi: new(0.2)}
				for range 2 {
					row.Days = append(row.Days, report.Band{Date: "2026-04-01", Effect: 0.1})
				}
				f.report.Lessons = append(f.report.Lessons, row)
			}
			f.book, f.findings = lesson.NewBook(all), nil
		}
	}
	fillLesson := func(f *wordSource, _ *admin.Options) {
		l := &lesson.Lesson{Slug: "word", Title: longWord, Body: manyWords, State: lesson.Candidate}
		l.Trigger.Description = longWord
		for i := range 5000 {
			l.Trigger.Keywords = append(l.Trigger.Keywords, fmt.Sprint("a keyword of some length ", i))
			l.Evidence = append(l.Evidence, lesson.Evidence{Ref: fmt.Sprint("s-", i), Note: "it went wrong"})
			f.findings = append(f.findings, lesson.Finding{Message: fmt.Sprint("something is not right at ", i)})
			f.events = append(f.events, lesson.Event{Slug: "word", Action: "edit", By: fmt.Sprint("agent ", i)})
			f.report.Lessons = append(f.report.Lessons, report.Row{Slug: "word", Arm: fmt.Sprint("word@", i), State: "edited"})
			f.backtest.Words = append(f.backtest.Words, backtest.SessionCount{Text: fmt.Sprint("word ", i), Sessions: i})
		}
		f.book = lesson.NewBook([]*lesson.Lesson{l})
	}
	fillTranscript := func(f *wordSource, _ *admin.Options) {
		f.transcript.Name, f.transcript.Agent, f.transcript.Model, f.transcript.TurnItems = longWord, longWord, longWord, nil
		for i := range store.TurnsShown {
			f.transcript.TurnItems = append(f.transcript.TurnItems, store.TurnItem{Turn: i, Model: longWord, Entries: []store.Entry{{Kind: "user", Text: "hello"}}})
		}
		for i := range 5000 {
			f.transcript.Picks = append(f.transcript.Picks, store.PickItem{Slug: fmt.Sprint("l-", i)})
			f.transcript.Rewarded.Sources = append(f.transcript.Rewarded.Sources, store.SourceItem{})
			f.transcript.Injected = append(f.transcript.Injected, fmt.Sprint("l-", i))
		}
	}
	fillLists := func(f *wordSource, _ *admin.Options) {
		f.list.Sessions, f.samples.Samples = nil, nil
		for range store.DefaultRows {
			x := store.SessionItem{ID: "s-1", Name: longWord, Agent: longWord, Model: longWord}
			for i := range 500 {
				x.Injected = append(x.Injected, fmt.Sprintf("a-lesson-of-some-length-%d", i))
			}
			f.list.Sessions = append(f.list.Sessions, x)
			f.samples.Samples = append(f.samples.Samples, store.SampleItem{Agent: longWord, Sample: sample.Sample{
				ID: "x", Input: map[string]any{"text": manyWords}, Output: map[string]any{"text": manyWords},
			}})
		}
	}
	fillHealth := func(f *wordSource, _ *admin.Options) {
		f.health.ReloadError, f.health.Store.Problem, f.health.Started = longWord, longWord, time.Unix(1e9, 0)
		f.health.Config = []configs.Setting{{Path: "key", Value: longWord, Default: "x", Changed: true}}
		f.figures = []admin.Figure{{Name: "Store", Value: longWord, Bad: true}}
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
			t.Errorf("%s: the page has %d KiB, want at most %d KiB", name, len(page)>>10, maxPageSize>>10)
		}
		checkPage(t, name, page[:min(len(page), maxPageSize)], tc.wantText)
	}
}
