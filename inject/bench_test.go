package inject

import (
	"fmt"
	"strings"
	"testing"

	"precept/inject/lesson"
	"precept/internal/wire"
)

// BenchmarkPlan plans a turn with 256 KB of history, two earlier blocks, and 1,000 lessons that do not match.
func BenchmarkPlan(b *testing.B) {
	var all []*lesson.Lesson
	for i := range 1000 {
		all = append(all, activeLesson(fmt.Sprintf("lesson-%d", i), fmt.Sprintf("phrase number %d", i), "Look twice."))
	}
	for _, form := range []wireForm{plainChat, claude, responses} {
		s := newTestSession(b, form, injectAll(), newBook(all...), "s")
		s.agent.addUserMessage("phrase number 7")
		s.send()
		s.endTurn()
		s.addFailedCall("make first", "phrase number 8")
		s.send()
		if len(s.rec.Lessons.Blocks) != 2 {
			b.Fatalf("the session has %d blocks, want 2", len(s.rec.Lessons.Blocks))
		}
		for i := range 130 {
			id := s.agent.addCall(fmt.Sprint("step ", i))
			s.agent.addResult(id, strings.Repeat("one more line of what it said\n", 64), false)
		}
		s.endTurn()
		s.send()
		s.endTurn()
		s.addFailedCall("make last", "nothing")
		body := s.agent.body()
		data, err := s.rec.Encode()
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("%s/%d KB", s.agent.dialect(), len(body)>>10), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				req, err := wire.Parse(s.agent.dialect(), body)
				if err != nil {
					b.Fatal(err)
				}
				s.restore(data)
				b.StartTimer()
				if p := s.injector.Plan(s.rec, Input{Request: req, Claim: s.claim, Book: s.book, Beliefs: s.beliefs, Now: s.now}); len(p.Edits) != 2 {
					b.Fatalf("the plan has %d edits, want 2", len(p.Edits))
				}
			}
		})
	}
}
