package demo

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"precept/inject/lesson"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWorldIsDeterministicForSeed(t *testing.T) {
	a, b, other := NewWorld(7), NewWorld(7), NewWorld(8)
	changed := 0
	for n := 1; n <= 200; n++ {
		ta, tb, to := a.ticket(n), b.ticket(n), other.ticket(n)
		if !reflect.DeepEqual(ta, tb) || a.ticketText(ta) != b.ticketText(tb) || a.succeeds(ta, nil) != b.succeeds(tb, nil) {
			t.Fatalf("ticket %d in two worlds with the same seed: got %+v and %+v, want equal tickets", n, ta, tb)
		}
		if !reflect.DeepEqual(ta, to) {
			changed++
		}
		if ta.turns < 1 || ta.turns > 3 {
			t.Errorf("ticket %d: got %d turns, want 1 to 3", n, ta.turns)
		}
	}
	if changed < 190 {
		t.Errorf("worlds with different seeds: got %d of 200 tickets that differ, want at least 190", changed)
	}
}

func TestEffectReturnsTrueEffects(t *testing.T) {
	w := NewWorld(1)
	for _, l := range w.Truths {
		if e, ok := w.Effect(l.Slug); !ok || e != l.Effect {
			t.Errorf("Effect(%s) = %v, %v, want %v, true", l.Slug, e, ok, l.Effect)
		}
	}
	if e, ok := w.Effect("nothing-of-the-kind"); ok || e != 0 {
		t.Errorf("Effect(unknown lesson) = %v, %v, want 0, false", e, ok)
	}
}

func TestLessonChangesSuccessChanceByEffect(t *testing.T) {
	w := NewWorld(1)
	rapid.Check(t, func(rt *rapid.T) {
		tk := w.ticket(rapid.IntRange(1, 999_999).Draw(rt, "ticket"))
		tk.difficulty = rapid.Float64Range(-8, 8).Draw(rt, "difficulty")
		lessons := rapid.SliceOfNDistinct(rapid.IntRange(0, len(w.Truths)-1), 0, len(w.Truths), rapid.ID[int]).Draw(rt, "lessons")
		p := w.successChance(tk, lessons)
		if p < .03 || p > .97 {
			rt.Fatalf("got success chance %v, want between 0.03 and 0.97", p)
		}
		for i, l := range w.Truths {
			if slices.Contains(lessons, i) {
				continue
			}
			q := w.successChance(tk, append(slices.Clone(lessons), i))
			if d := q - p; math.Abs(d) > math.Abs(l.Effect)+1e-9 || d*l.Effect < 0 {
				rt.Fatalf("lesson %s: got a success chance that changes by %v, want a change with the sign of the effect %v and no larger", l.Slug, d, l.Effect)
			} else if q > .03 && q < .97 && p > .03 && p < .97 && math.Abs(d-l.Effect) > 1e-9 {
				rt.Fatalf("lesson %s: got a success chance that changes by %v, want %v", l.Slug, d, l.Effect)
			}
		}
		// The world decides each ticket by one random number, so a higher chance never turns success into failure.
		for _, i := range lessons {
			if w.Truths[i].Effect > 0 && w.succeeds(tk, nil) && !w.succeeds(tk, []int{i}) {
				rt.Fatalf("with the helpful lesson %s, ticket %d: got failure, want success, as without the lesson", w.Truths[i].Slug, tk.n)
			}
		}
	})
}

// Some lessons match difficult tickets, and others match easy ones. The success rates on the matching tickets therefore
// rank three pairs of lessons in the wrong order.
func TestRawSuccessRatesMislead(t *testing.T) {
	w := NewWorld(3)
	const n = 20_000
	var success, expected, variance, without float64
	type sums struct { // sums over the tickets that a lesson matches
		tickets, with, without, effect float64
	}
	byLesson := make([]sums, len(w.Truths))
	for i := 1; i <= n; i++ {
		tk := w.ticket(i)
		p := w.successChance(tk, tk.lessons)
		expected, variance, without = expected+p, variance+p*(1-p), without+w.successChance(tk, nil)
		if w.succeeds(tk, tk.lessons) {
			success++
		}
		for _, l := range tk.lessons {
			s := &byLesson[l]
			s.tickets++
			s.with += w.successChance(tk, []int{l})
			s.without += w.successChance(tk, nil)
			s.effect += p - w.successChance(tk, slices.DeleteFunc(slices.Clone(tk.lessons), func(k int) bool { return k == l }))
		}
	}
	if d := math.Abs(success - expected); d > 4*math.Sqrt(variance) {
		t.Errorf("got %v successes in %d tickets, want %.0f, give or take 4 standard deviations (%.1f)", success, n, expected, 4*math.Sqrt(variance))
	}
	without /= n
	for i, l := range w.Truths {
		s := byLesson[i]
		if share := s.tickets / n; share < .1 || share > .7 {
			t.Errorf("lesson %s: got a match in %.2f of the tickets, want between 0.1 and 0.7", l.Slug, share)
		}
		if d := s.effect/s.tickets - l.Effect; math.Abs(d) > .01 {
			t.Errorf("lesson %s: got mean effect %.3f on the success chance of its tickets, want %.3f, give or take 0.01", l.Slug, s.effect/s.tickets, l.Effect)
		}
		// gap is the bias in a comparison between a lesson's sessions and all sessions.
		gap := s.without/s.tickets - without
		if l.difficultyWeight > 0 && gap > -.02 || l.difficultyWeight < 0 && gap < .02 || l.difficultyWeight == 0 && math.Abs(gap) > .01 {
			t.Errorf("lesson %s, difficulty weight %v: got a success rate without lessons that is %+.3f higher on matching tickets than on all tickets, want below -0.02 for a positive weight, above 0.02 for a negative weight, and -0.01 to 0.01 for weight 0", l.Slug, l.difficultyWeight, gap)
		}
	}
	rate := func(slug string) float64 { s := byLesson[w.bySlug[slug]]; return s.with / s.tickets }
	for _, c := range [][2]string{
		{"ask-for-a-screenshot", "pin-the-dependency"},
		{"restart-the-service-first", "rewrite-the-module"},
		{"read-the-failing-assertion", "reproduce-before-fixing"},
	} {
		if above, below := rate(c[0]), rate(c[1]); above <= below || w.Truths[w.bySlug[c[0]]].Effect >= w.Truths[w.bySlug[c[1]]].Effect {
			t.Errorf("success rate of %s = %.3f, of %s = %.3f: got a ranking as by effect, want the opposite ranking", c[0], above, c[1], below)
		}
	}
}

// A demo lesson matches only a ticket's first message, and only if the ticket is about the lesson's subject.
func TestLessonsMatchOnlyIntendedTickets(t *testing.T) {
	w := NewWorld(5)
	dir := filepath.Join(t.TempDir(), "a", "lessons")
	if err := w.WriteLessons(dir); err != nil {
		t.Fatal(err)
	}
	book, problems, err := lesson.Load(dir)
	if err != nil || len(problems) > 0 {
		t.Fatalf("Load: got problems %+v, error %v, want no problems and no error", problems, err)
	}
	if book.Len() != len(w.Truths) {
		t.Errorf("written lessons: got %d, want %d, as many as the world has", book.Len(), len(w.Truths))
	}
	now := time.Date(2032, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, f := range (lesson.Checker{Now: now}).CheckBook(book) {
		t.Errorf("CheckBook: got finding %+v, want no finding", f)
	}
	for _, l := range w.Truths {
		got, ok := book.Get(l.Slug)
		if !ok || !got.IsActiveAt(now) {
			t.Errorf("lesson %s: found = %v, active = false, want the lesson found and active", l.Slug, ok)
		}
	}
	for n := 1; n <= 300; n++ {
		tk := w.ticket(n)
		var fired, want []string
		for _, h := range book.Match(&lesson.Query{Words: []string{w.ticketText(tk)}, Now: now}) {
			fired = append(fired, h.Lesson.Slug)
		}
		for _, l := range tk.lessons {
			want = append(want, w.Truths[l].Slug)
		}
		slices.Sort(want)
		if !slices.Equal(fired, want) {
			t.Fatalf("Match(%q) = %v, want %v", w.ticketText(tk), fired, want)
		}
	}
	for _, text := range []string{lastTurnPhrase, "Step 1 is fine, go on."} {
		if hits := book.Match(&lesson.Query{Words: []string{text}, Now: now}); len(hits) > 0 {
			t.Errorf("Match(%q) = %v, want no match", text, hits[0].Lesson.Slug)
		}
	}
}

func TestWriteLessonsReturnsWriteErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := NewWorld(1).WriteLessons(filepath.Join(file, "sub")); err == nil || !strings.Contains(err.Error(), "lessons") {
		t.Errorf("WriteLessons to a directory below a file: err = %v, want an error that contains %q", err, "lessons")
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "run-the-full-suite.md"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := NewWorld(1).WriteLessons(dir); err == nil {
		t.Error("WriteLessons, with a directory in place of a lesson file: err = nil, want an error")
	}
}

func TestTicketTextNamesSubjects(t *testing.T) {
	w := NewWorld(1)
	for want, applies := range map[string][]int{
		"Please work on TICKET-000042.":                                                                              nil,
		"Please work on TICKET-000042. It is about a failing assertion in CI":                                        {1},
		"Please work on TICKET-000042. It is about a failing assertion in CI, and about a button in the wrong place": {1, 7},
	} {
		if got := w.ticketText(ticket{n: 42, lessons: applies}); got != want {
			t.Errorf("ticket text with lessons %v: got %q, want %q", applies, got, want)
		}
	}
}
