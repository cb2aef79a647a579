package meaning_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"precept/inject/lesson"
	"precept/inject/meaning"
	"precept/internal/sample"
	"precept/internal/session"
)

// embeddingServer returns one vector for texts about boats and yachts, and an orthogonal one for other texts.
type embeddingServer struct {
	mu       sync.Mutex
	embedded []string
	header   http.Header
	override func(w http.ResponseWriter) bool // if set, is called first; returns true if it has answered the request
}

func (s *embeddingServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var q struct {
		Model string   `json:"model"`
		Input []string `json:"input"`
	}
	if json.Unmarshal(body, &q) != nil || q.Model != "small" || r.URL.Path != "/v1/embeddings" {
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.embedded, s.header = append(s.embedded, q.Input...), r.Header
	if s.override != nil && s.override(w) {
		return
	}
	var data []any
	for i, text := range q.Input {
		vector := []float32{0, 2}
		if strings.Contains(text, "yacht") || strings.Contains(text, "boat") {
			vector = []float32{3, 0}
		}
		data = append(data, map[string]any{"index": i, "embedding": vector})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"data": data})
}

// startMatcher calls change for a lesson about boats, and runs a matcher with this lesson. The returned channel
// receives the failures that the matcher reports.
func startMatcher(t *testing.T, embeddings *embeddingServer, sessions int, change func(l *lesson.Lesson)) (*meaning.Matcher, <-chan error) {
	t.Helper()
	server := httptest.NewServer(embeddings)
	t.Cleanup(server.Close)
	traffic := lesson.NewTraffic()
	for i := range sessions {
		traffic.Add([]lesson.Query{{Words: []string{fmt.Sprintf("answer question number %d about opening hours", i)}}})
	}
	l := &lesson.Lesson{Slug: "moor-first", Title: "Moor the boat first.", State: lesson.Active, ContentHash: "h", Trigger: lesson.Trigger{Description: "The user rents a boat.", Keywords: []string{"rent a boat"}, ByLikeness: true}}
	if change != nil {
		change(l)
	}
	book, failed := lesson.NewBook([]*lesson.Lesson{l}), make(chan error, 1000)
	matcher, err := meaning.New(meaning.Options{
		Client: meaning.Client{URL: server.URL + "/v1", Model: "small", Key: "sk-canary", HTTP: server.Client()},
		Book:   func() *lesson.Book { return book }, Rate: func() float64 { return 0.005 },
		Traffic:   func(context.Context) (*lesson.Traffic, error) { return traffic, nil },
		OnFailure: func(err error) { failed <- err },
		Wait:      func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- matcher.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		matcher.Close()
	})
	return matcher, failed
}

func exchangeWithText(id session.ID, text string) *sample.Exchange {
	item, _ := json.Marshal(map[string]string{"role": "user", "content": text})
	return &sample.Exchange{Session: id.String(), Dialect: "chat", New: []json.RawMessage{item}}
}

func waitForMatch(t *testing.T, m *meaning.Matcher, id session.ID, text string) lesson.Resemblance {
	t.Helper()
	for range 500 {
		m.Offer(exchangeWithText(id, text))
		if found := m.Matches(id); len(found) > 0 {
			return found[0]
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("no match for %q after 500 offers", text)
	return lesson.Resemblance{}
}

func TestTextWithSameMeaningMatches(t *testing.T) {
	server := &embeddingServer{}
	m, _ := startMatcher(t, server, lesson.LikeSessions, nil)
	r := waitForMatch(t, m, session.ID{1}, "Hello. We would like the yacht for Sunday.")
	if r.Lesson.Slug != "moor-first" || r.Score < r.Threshold {
		t.Errorf("match = %+v, want moor-first with a score not below the threshold", r)
	}
	for range 20 { // the cache should answer most of them
		m.Offer(exchangeWithText(session.ID{2}, "When do you open on Sunday?"))
	}
	waitForMatch(t, m, session.ID{3}, "a yacht")
	if found := m.Matches(session.ID{2}); len(found) != 0 {
		t.Errorf("text with a different meaning: matches = %+v, want none", found)
	}
	server.mu.Lock()
	defer server.mu.Unlock()
	if got := server.header.Get("Authorization"); got != "Bearer sk-canary" {
		t.Errorf("Authorization = %q, want \"Bearer sk-canary\"", got)
	}
	times := 0
	for _, text := range server.embedded {
		if text == "When do you open on Sunday?" {
			times++
		}
	}
	if times == 0 || times > 3 { // the cache writes in the background
		t.Errorf("equal sentences embedded %d times, want 1 to 3", times)
	}
}

func TestLessonThatCannotMatchIsNotEmbedded(t *testing.T) {
	for name, change := range map[string]func(l *lesson.Lesson){
		"ByLikeness is false":   func(l *lesson.Lesson) { l.Trigger.ByLikeness = false },
		"lesson is quarantined": func(l *lesson.Lesson) { l.State = lesson.Quarantined },
		"lesson is for errors":  func(l *lesson.Lesson) { l.Trigger.Keywords, l.Trigger.ErrorPatterns = nil, []string{"adrift"} },
	} {
		server := &embeddingServer{}
		m, _ := startMatcher(t, server, lesson.LikeSessions, change)
		for range 50 {
			m.Offer(exchangeWithText(session.ID{1}, "the yacht"))
			time.Sleep(time.Millisecond)
		}
		server.mu.Lock()
		if len(server.embedded) > 0 {
			t.Errorf("%s: server got %d texts, want 0", name, len(server.embedded))
		}
		server.mu.Unlock()
	}
}

func TestNotKeywordPreventsMatch(t *testing.T) {
	server := &embeddingServer{}
	m, _ := startMatcher(t, server, lesson.LikeSessions, func(l *lesson.Lesson) { l.Trigger.NotKeywords = []string{"toy"} })
	for range 20 {
		m.Offer(exchangeWithText(session.ID{1}, "I want a toy yacht"))
		m.Offer(exchangeWithText(session.ID{3}, "This is for a toy. I want a yacht"))
	}
	waitForMatch(t, m, session.ID{2}, "I want a yacht")
	for _, id := range []session.ID{{1}, {3}} {
		if found := m.Matches(id); len(found) != 0 {
			t.Errorf("session %v: matches = %+v, want none", id, found)
		}
	}
}

func TestLessonMatchesOnlyForTenantAndModel(t *testing.T) {
	m, _ := startMatcher(t, &embeddingServer{}, lesson.LikeSessions, func(l *lesson.Lesson) { l.Scope.Tenant, l.Trigger.Models = "red", []string{"large*"} })
	offer := func(id session.ID, tenant, model string) {
		x := exchangeWithText(id, "I want a yacht")
		x.Tenant, x.Model = tenant, model
		m.Offer(x)
	}
	for range 500 {
		offer(session.ID{1}, "blue", "large-1")
		offer(session.ID{2}, "red", "small-1")
		if offer(session.ID{3}, "red", "large-1"); len(m.Matches(session.ID{3})) > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if a, b, c := len(m.Matches(session.ID{1})), len(m.Matches(session.ID{2})), len(m.Matches(session.ID{3})); a+b != 0 || c != 1 {
		t.Errorf("got %d matches for another tenant, %d for another model and %d within the scope, want 0, 0 and 1", a, b, c)
	}
}

func TestNothingIsEmbeddedWithTooFewSessions(t *testing.T) {
	server := &embeddingServer{}
	m, _ := startMatcher(t, server, lesson.LikeSessions-1, nil)
	for range 50 {
		m.Offer(exchangeWithText(session.ID{1}, "the yacht"))
		time.Sleep(time.Millisecond)
	}
	server.mu.Lock()
	defer server.mu.Unlock()
	if len(server.embedded) > 0 {
		t.Errorf("server got %d texts, want 0", len(server.embedded))
	}
}

func TestReportedFailureDoesNotContainKey(t *testing.T) {
	for name, fault := range map[string]func(w http.ResponseWriter) bool{
		"refusal": func(w http.ResponseWriter) bool {
			http.Error(w, "invalid key sk-canary", http.StatusUnauthorized)
			return true
		},
		"not JSON":       func(w http.ResponseWriter) bool { _, _ = io.WriteString(w, "sk-canary"); return true },
		"missing vector": func(w http.ResponseWriter) bool { _, _ = io.WriteString(w, `{"data":[]}`); return true },
		"zero vector": func(w http.ResponseWriter) bool {
			_, _ = io.WriteString(w, `{"data":[{"embedding":[0,0]}]}`)
			return true
		},
	} {
		m, failed := startMatcher(t, &embeddingServer{override: fault}, lesson.LikeSessions, nil)
		err := <-failed
		if err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: err = %v, want an error without the key", name, err)
		}
		if found := m.Matches(session.ID{1}); len(found) != 0 {
			t.Errorf("%s: matches = %+v, want none", name, found)
		}
	}
}

func TestMatcherRecoversAfterFailures(t *testing.T) {
	n := 0
	server := &embeddingServer{override: func(w http.ResponseWriter) bool {
		if n++; n > 3 {
			return false
		}
		http.Error(w, "overloaded", http.StatusServiceUnavailable)
		return true
	}}
	m, _ := startMatcher(t, server, lesson.LikeSessions, nil)
	waitForMatch(t, m, session.ID{1}, "the yacht")
}

func TestFullQueueDropsExchangesWithoutWaiting(t *testing.T) {
	var failed []error
	m, err := meaning.New(meaning.Options{OnFailure: func(err error) { failed = append(failed, err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for range 300 { // Run was not called, so the queue fills up
		m.Offer(exchangeWithText(session.ID{1}, "the yacht"))
	}
	if len(failed) != 300-256 || !strings.Contains(failed[0].Error(), "queue") || errors.Is(failed[0], context.Canceled) {
		t.Errorf("got %d failures %v, want 44 about the full queue, none of them context.Canceled", len(failed), failed)
	}
}
