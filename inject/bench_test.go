package inject

import (
	"fmt"
	"strings"
	"testing"

	"precept/inject/lesson"
	"precept/internal/wire"
)

// BenchmarkPlan measures Plan in a turn of a tool loop, with 256 KB of history, two earlier blocks, and 1,000 lessons
// of which none matches the new items. Parsing is not measured.
func BenchmarkPlan(b *testing.B) {
	var all []*lesson.Lesson
	for i := range 1000 {
		all = append(all, activeLesson(fmt.Sprintf("lesson-%d", i), fmt.Sprintf("phrase number %d", i), "Look twice."))
	}
	for _, form := range []wireForm{plainChat, claude, responses} {
		r := newTestSession(b, form, injectAll(), newBook(all...), "s")
		r.a.addUser("phrase number 7", false)
		r.send()
		r.endTurn()
		r.callOnce("make first", "phrase number 8", true)
		r.send()
		if len(r.rec.Lessons.Blocks) != 2 {
			b.Fatalf("the session has %d blocks, want 2", len(r.rec.Lessons.Blocks))
		}
		for i := range 130 {
			id := r.a.addCall(fmt.Sprint("step ", i))
			r.a.addResult(id, strings.Repeat("one more line of what it said\n", 64), false)
		}
		r.endTurn()
		r.send()
		r.endTurn()
		r.callOnce("make last", "nothing", true)
		body := r.a.body()
		data, err := r.rec.Encode()
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("%s/%d KB", r.a.dialect(), len(body)>>10), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				req, err := wire.Parse(r.a.dialect(), body)
				if err != nil {
					b.Fatal(err)
				}
				r.restore(data)
				b.StartTimer()
				if p := r.in.Plan(r.rec, Input{Request: req, Claim: r.claim, Book: r.book, Beliefs: r.beliefs, Now: r.now}); len(p.Edits) != 2 {
					b.Fatalf("the plan has %d edits, want 2", len(p.Edits))
				}
			}
		})
	}
}
