package backtest_test

import (
	"fmt"
	"slices"
	"testing"

	"precept/inject/backtest"
	"precept/inject/lesson"
	"precept/internal/sample"
)

// endpointLesson returns a lesson that resembles similarSentence, although none of its keywords occurs in that
// sentence.
func endpointLesson() *lesson.Lesson {
	return &lesson.Lesson{
		Slug: "keep-old-endpoints", Title: "Keep the old endpoint beside the new one.", State: lesson.Quarantined,
		Trigger: lesson.Trigger{Description: "The user asks for another name of an endpoint.", Keywords: []string{"rename the endpoint", "remove the endpoint"}},
	}
}

const similarSentence = "We want the orders endpoint to be called purchases, please rename it."

// runWithSimilarity backtests lessons on sessions with one sentence each. Matching by similarity needs many sessions,
// so runWithSimilarity adds sessions about opening hours.
func runWithSimilarity(tested []*lesson.Lesson, config backtest.LikenessConfig, sentences ...string) *backtest.Evaluator {
	var sessions []*backtest.Session
	for i := range lesson.LikeSessions {
		sentences = append(sentences, fmt.Sprintf("Answer question %d about the opening hours of our shop.", i))
	}
	config.Traffic, config.Rate = lesson.NewTraffic(), 0.005
	for i, s := range sentences {
		sessions = append(sessions, &backtest.Session{Name: fmt.Sprint(i), Exchanges: []sample.Exchange{userExchange("chat", s)}})
		config.Traffic.Add(backtest.Queries(sessions[i].Exchanges))
	}
	run := backtest.New(tested, nil)
	run.EnableLikeness(config)
	for _, s := range sessions {
		run.Add(s)
	}
	return run
}

func TestSimilarityMatchesAreCountedSeparately(t *testing.T) {
	r := runWithSimilarity([]*lesson.Lesson{endpointLesson()}, backtest.LikenessConfig{}, similarSentence, "Rename the endpoint.").Result("keep-old-endpoints")
	if r.Matched != 1 || r.Likeness.Sessions != 1 || r.Likeness.Captured != lesson.LikeSessions+2 {
		t.Fatalf("result = %+v, want one exact match, one similarity match and %d captured sessions", r, lesson.LikeSessions+2)
	}
	e := r.Likeness.Examples[0]
	if e.Session != "0" || e.Sentence != similarSentence || !slices.Contains(e.Words, "endpoint") || e.Score < e.Threshold {
		t.Errorf("example = %+v, want session 0's sentence, the shared word endpoint and a score not below the threshold", e)
	}
}

func TestSentenceMatchesOnlyMostSimilarLesson(t *testing.T) {
	other := &lesson.Lesson{
		Slug: "call-orders-purchases", Title: "Rename the orders endpoint: purchases.", State: lesson.Active,
		Trigger: lesson.Trigger{Description: "The user wants the orders endpoint to be called purchases.", Keywords: []string{"rename orders endpoint purchases"}},
	}
	config := backtest.LikenessConfig{OtherLessons: []*lesson.Lesson{other, endpointLesson()}}
	if r := runWithSimilarity([]*lesson.Lesson{endpointLesson()}, config, similarSentence).Result("keep-old-endpoints"); r.Likeness.Sessions != 0 {
		t.Errorf("sentence that resembles another lesson more: similarity matches = %+v, want none", r.Likeness)
	}
}

func TestSimilarityInjectionNeedsTwoOptIns(t *testing.T) {
	for _, tc := range []struct{ lessonOptsIn, enabled, injected bool }{{true, true, true}, {true, false, false}, {false, true, false}} {
		l := endpointLesson()
		l.Trigger.ByLikeness = tc.lessonOptsIn
		if r := runWithSimilarity([]*lesson.Lesson{l}, backtest.LikenessConfig{Inject: tc.enabled}).Result(l.Slug); r.Likeness.Injected != tc.injected {
			t.Errorf("ByLikeness %v in the lesson, Inject %v in the configuration: Injected = %v, want %v", tc.lessonOptsIn, tc.enabled, r.Likeness.Injected, tc.injected)
		}
	}
}

func TestTooFewCapturedSessionsDisableSimilarityMatches(t *testing.T) {
	run := backtest.New([]*lesson.Lesson{endpointLesson()}, nil)
	traffic := lesson.NewTraffic()
	s := &backtest.Session{Name: "s", Exchanges: []sample.Exchange{userExchange("chat", similarSentence)}}
	traffic.Add(backtest.Queries(s.Exchanges))
	run.EnableLikeness(backtest.LikenessConfig{Traffic: traffic, Rate: 0.1})
	run.Add(s)
	if r := run.Result("keep-old-endpoints"); r.Likeness.Sessions != 0 || r.Likeness.Captured != 1 || r.Likeness.Examples == nil {
		t.Errorf("similarity matches = %+v, want none, an empty example list and one captured session", r.Likeness)
	}
}
