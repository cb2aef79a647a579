package learning

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"precept/store/storetest"
	"precept/test/harness"
)

// precept inserts the answer to a model's /lesson command into the next request of the session. precept sends the same
// answer, byte for byte, in every later request of the session.
func TestReplicasAnswerLessonCommandOnce(t *testing.T) {
	t.Parallel()
	const turns = 8
	var replies []string
	for n := range turns {
		replies = append(replies, fmt.Sprintf("/lesson cache number %d: Clear cache %d first.", n, n))
	}
	model := newScriptedModel(t, streamed, replies...)
	shared := []string{
		"--upstream", model.URL + "/v1", "--store-url", storetest.StartRedis(t).URL(), "--lessons", "redis://", "--bandit-objective", "all", "--bandit-epsilon", "0",
		"--bandit-control", "0", "--writ-enabled", "--writ-trust", "own",
	}
	dirs := []string{t.TempDir(), t.TempDir()}
	servers := []*harness.Process{harness.Start(t, dirs[0], shared...), harness.Start(t, dirs[1], shared...)}
	a := &harness.Conversation{T: t, Dialect: "chat"}
	previous := ""
	for n := range turns {
		a.BaseURL = servers[n%2].DataURL
		a.User(fmt.Sprint("Go on, ", n))
		a.Send(streamed)
		waitForExecutedCommands(t, n+1, servers...)
		got := model.lastRequestTexts(t)
		if n > 0 {
			newest := got[len(got)-1]
			if !strings.HasPrefix(newest, fmt.Sprintf("[/lesson create cache number %d: Clear cache %d first.]\nOK: recorded lesson #%d — #%d [cache number %d] ", n-1, n-1, n, n, n-1)) || strings.Count(newest, "[/lesson ") != 1 {
				t.Fatalf("last message in turn %d = %q, want exactly one answer, to the newest command", n, newest)
			}
			if !strings.HasPrefix(strings.Join(got, "\n"), previous) {
				t.Fatalf("messages in turn %d:\n%s\nwant them to begin with the messages in the previous turn:\n%s", n, strings.Join(got, "\n"), previous)
			}
		}
		previous = strings.Join(got, "\n")
		a.Assistant(replies[n])
	}

	lessonsAt := func(base string) lessonsClient { return lessonsClient{t, base, "coder", "sk-one"} }
	harness.Eventually(t, "the lesson on cache number 3 in both servers' requests", func() bool {
		for _, s := range servers {
			b := &harness.Conversation{T: t, BaseURL: s.DataURL, Dialect: "chat"}
			b.User("Is cache number 3 stale?")
			b.Send(streamed)
			if !strings.Contains(model.lastRequestTexts(t)[0], "Clear cache 3 first.") {
				return false
			}
		}
		return true
	})
	hitCount := func(base string) (n int) {
		_, body := lessonsAt(base).send("GET", "?q=number+3", nil)
		var page struct{ Lessons []lessonResponse }
		if json.Unmarshal(body, &page) != nil || len(page.Lessons) != 1 {
			t.Fatalf("search for number 3: got %s, want JSON with one lesson", body)
		}
		return page.Lessons[0].HitCount
	}
	for range 10 {
		for _, s := range servers {
			b := &harness.Conversation{T: t, BaseURL: s.DataURL, Dialect: "chat"}
			b.User("Cache number 3 is stale again.")
			b.Send(streamed)
		}
	}
	harness.Eventually(t, "equal hit counts, at least 22, on both servers", func() bool {
		first, second := hitCount(servers[0].DataURL), hitCount(servers[1].DataURL)
		return first == second && first >= 22 // 20 from the loop, and at least 2 from the Eventually call above the loop
	})
	before := hitCount(servers[0].DataURL)
	for _, s := range servers {
		s.Stop()
	}
	restarted := harness.Start(t, t.TempDir(), shared...)
	if n := hitCount(restarted.DataURL); n != before {
		t.Errorf("hit count after a restart: got %d, want %d", n, before)
	}
}
