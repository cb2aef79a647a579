package distill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"precept/detect"
	"precept/inject/lesson"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/internal/wire"
)

// maxSimilar is the maximum number of similar lessons in a question to the judge.
const maxSimilar = 8

// similarLessons returns the lessons with the most words in common with a session. A judge can name such a lesson
// instead of proposing it again.
func (w *tenantDistiller) similarLessons(s *Session) []*lesson.Lesson {
	words := map[string]bool{}
	for _, p := range s.parts() {
		if p.hasTrouble || strings.HasPrefix(p.text, "USER: ") {
			for _, word := range contentWords(lesson.NormalizeLookalikes(p.text)) {
				words[word.key] = true
			}
		}
	}
	type scored struct {
		lesson *lesson.Lesson
		score  float64
	}
	var list []scored
	for _, l := range w.book.Lessons() {
		if l.Scope.Tenant != "" && l.Scope.Tenant != w.tenant || l.State == lesson.Rejected || l.State == lesson.Archived || l.State == lesson.Superseded || l.State == lesson.Expired {
			continue
		}
		keys := readSentence(lesson.NormalizeLookalikes(l.Title + "\n" + strings.Join(triggerPhrases(&l.Trigger), "\n"))).wordKeys
		both := 0
		for key := range keys {
			if words[key] {
				both++
			}
		}
		if both >= minCommonWords {
			list = append(list, scored{l, float64(both) / float64(len(keys))})
		}
	}
	slices.SortFunc(list, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.lesson.Slug, b.lesson.Slug))
	})
	var out []*lesson.Lesson
	for _, o := range list[:min(len(list), maxSimilar)] {
		out = append(out, o.lesson)
	}
	return out
}

const minCommonWords = 2 // words that a session and a similar lesson have in common

// capturedSession holds the user's words and the errors in a stored session. The distiller tests the triggers that a
// model proposes on these texts.
type capturedSession struct {
	id     session.ID
	user   []string
	errors []lesson.ErrorText
}

const (
	maxCapturedSessions = 400
	minCapturedSessions = 20  // fewer sessions cannot show that a trigger is too broad
	minTriageSessions   = 40  // captured sessions needed for Selection.Triage
	maxMatchShare       = 0.2 // a trigger that matches a larger share of the captured sessions is too broad
)

func (w *tenantDistiller) readCapturedSessions(ctx context.Context) error {
	if w.Distiller.o.Judge == nil {
		return nil
	}
	err := w.Distiller.o.Source.EachSession(ctx, w.tenant, time.Time{}, time.Time{}, func(r session.Row, _ session.SettledState) error {
		if len(w.capturedSessions) >= maxCapturedSessions {
			return errStopWalk
		}
		w.capturedSessions = append(w.capturedSessions, capturedSession{id: r.ID})
		return nil
	})
	if err != nil && !errors.Is(err, errStopWalk) {
		return fmt.Errorf("distill: read the captured sessions: %w", err)
	}
	for i := range w.capturedSessions {
		s := &Session{}
		if s.Content.Exchanges, err = w.Distiller.o.Source.Exchanges(ctx, w.tenant, w.capturedSessions[i].id); err != nil {
			return fmt.Errorf("distill: read a captured session: %w", err)
		}
		w.capturedSessions[i].addEvents(s)
	}
	return nil
}

func (c *capturedSession) addEvents(s *Session) {
	for _, e := range s.Content.Events() {
		text := withoutBlocks(e.Text)
		switch {
		case e.Role == sample.EventUser:
			if asked := wire.UserRequest(text); asked != "" {
				c.user = append(c.user, asked)
			}
		case e.Role == sample.EventCall && e.Answered:
			if j := detect.Classify(e.Call.Name, e.Call.Args, text, e.IsError); j.Outcome == detect.Error {
				c.errors = append(c.errors, lesson.ErrorText{Tool: e.Call.Name, Text: detect.Signature(text), Kinds: detect.Kinds(text, j)})
			}
		}
	}
}

func (w *tenantDistiller) countMatches(trigger lesson.Trigger) (n int) {
	book := lesson.NewBook([]*lesson.Lesson{{Slug: "tested", State: lesson.Active, Trigger: trigger}})
	for i := range w.capturedSessions {
		c := &w.capturedSessions[i]
		if len(book.Match(&lesson.Query{Words: c.user, Errors: c.errors, Now: w.Distiller.o.Now()})) > 0 {
			n++
		}
	}
	return n
}

// dropBroadTriggers removes the triggers that match too many captured sessions. If none is left, it returns why the
// draft is refused.
func (w *tenantDistiller) dropBroadTriggers(d *Draft) (why string) {
	if len(w.capturedSessions) < minCapturedSessions {
		return ""
	}
	dropBroad := func(list []string, trigger func(string) lesson.Trigger) []string {
		return slices.DeleteFunc(list, func(p string) bool {
			n := w.countMatches(trigger(p))
			isBroad := float64(n) > maxMatchShare*float64(len(w.capturedSessions))
			if isBroad {
				why = fmt.Sprintf("the trigger %q is too broad: it fires in %d of %d captured sessions", p, n, len(w.capturedSessions))
			}
			return isBroad
		})
	}
	d.Errors = dropBroad(d.Errors, func(p string) lesson.Trigger { return lesson.Trigger{ErrorPatterns: []string{p}} })
	d.Keywords = dropBroad(d.Keywords, func(p string) lesson.Trigger { return lesson.Trigger{Keywords: []string{p}} })
	if len(d.Errors)+len(d.Keywords) > 0 {
		return ""
	}
	return why
}
