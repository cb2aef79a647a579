package inject

import (
	"fmt"
	"slices"
	"testing"

	"precept/bandit/trial"
	"precept/inject/lesson"
)

// similarBook returns a book with 200 captured sessions. The book has a lesson that is similar to similarWords, but
// does not match them exactly.
func similarBook(allowsSimilarity bool) *lesson.Book {
	traffic := lesson.NewTraffic()
	for i := range lesson.LikeSessions {
		traffic.Add([]lesson.Query{{Words: []string{fmt.Sprintf("answer question %d about our products", i)}}})
	}
	l := activeLesson("caches", "cache entries are stale", "Name who invalidates a cache.")
	l.Trigger.ByLikeness = allowsSimilarity
	return newBook(l).WithLikeness(traffic, 0.005)
}

func injectBySimilarity() Config {
	c := injectAll()
	c.InjectByLikeness = true
	return c
}

const similarWords = "why do stale entries stay in the cache?"

// The arm (treatment) of a similarity match has the suffix ~like.
func TestSimilarityMatchHasSeparateArm(t *testing.T) {
	s := newTestSession(t, plainChat, injectBySimilarity(), similarBook(true), "s")
	s.agent.addUserMessage(similarWords)
	p := s.send()
	if !slices.Equal(p.Injected, []string{"caches~like"}) || !slices.Equal(insertedSlugs(&p), []string{"caches"}) {
		t.Fatalf("Injected = %q, want caches~like; inserted slugs = %q, want caches", p.Injected, insertedSlugs(&p))
	}
	if arm := p.Picks[0].Arm; arm.Slug() != "caches~like" || trial.LessonSlug(arm.Slug()) != "caches" || p.Lessons[0].Slug != "caches~like" {
		t.Errorf("arm = %q, lessons = %+v, want slug caches~like in both", arm, p.Lessons)
	}
	s.endTurn()
	s.agent.addAnswer("ok")
	s.agent.addUserMessage("some cache entries are stale")
	if p := s.send(); len(p.Matched) != 0 || !slices.Equal(insertedSlugs(&p), []string{"caches"}) {
		t.Errorf("after the lesson was inserted: plan = %+v, want no new match and the block for caches", p)
	}
}

func TestExactMatchUsesExactMatchArm(t *testing.T) {
	s := newTestSession(t, plainChat, injectBySimilarity(), similarBook(true), "s")
	s.agent.addUserMessage("the cache entries are stale")
	if p := s.send(); !slices.Equal(p.Injected, []string{"caches"}) || p.Picks[0].Arm.Slug() != "caches" {
		t.Errorf("plan = %+v, want the lesson caches injected with the exact-match arm", p)
	}
}

func TestSimilarityRequiresSettingAndLessonOptIn(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg              Config
		allowsSimilarity bool
	}{"match.like is off": {injectAll(), true}, "the lesson does not set like": {injectBySimilarity(), false}} {
		s := newTestSession(t, plainChat, tc.cfg, similarBook(tc.allowsSimilarity), "s")
		s.agent.addUserMessage(similarWords)
		if p := s.send(); len(p.Matched) != 0 || len(p.Edits) != 0 {
			t.Errorf("%s: plan = %+v, want no match and no edit", name, p)
		}
	}
}

// precept searches for matches by meaning in the background, after it has sent a request. Therefore it inserts the
// lesson at the next turn.
func TestMeaningMatchIsInsertedAtNextTurn(t *testing.T) {
	s := newTestSession(t, claude, injectBySimilarity(), similarBook(true), "s")
	s.agent.addUserMessage("go")
	if p := s.send(); len(p.Matched) != 0 {
		t.Fatalf("the first turn matched %+v, want no match", p.Matched)
	}
	s.endTurn()
	s.addSuccessfulCall("list")
	l, _ := s.book.Get("caches")
	s.meaning = []lesson.Resemblance{{Lesson: l, Score: 0.8, Threshold: 0.5}}
	if p := s.send(); !slices.Equal(p.Injected, []string{"caches~like"}) || p.Picks[0].Arm.Slug() != "caches~like" {
		t.Errorf("second plan = %+v, want caches~like injected", p)
	}
}

func TestUnknownErrorKindMatchesBySimilarity(t *testing.T) {
	s := newTestSession(t, claude, injectBySimilarity(), similarBook(true), "s")
	s.agent.addUserMessage("go")
	s.send()
	s.endTurn()
	s.addFailedCall("refresh", "Error: 3 stale entries in the cache")
	if p := s.send(); !slices.Equal(p.Injected, []string{"caches~like"}) {
		t.Errorf("plan after the error = %+v, want caches~like injected", p)
	}
}
