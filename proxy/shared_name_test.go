package proxy_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// When an application sends one prompt_cache_key in all its conversations, each conversation is a session of its own
// with its lesson, even after a restart.
func TestSharedCacheKeyGivesEachConversationALesson(t *testing.T) {
	up := newUpstream(t, model(t))
	dir, book := t.TempDir(), newBook(t, "one: mend the build")
	r := newFixture(t, up, dir, book, injectAll())
	names := func(from int) map[string]bool {
		var mu sync.Mutex
		var wg sync.WaitGroup
		out := map[string]bool{}
		for i := range 20 {
			wg.Go(func() {
				body := fmt.Sprintf(`{"prompt_cache_key":"my-app","messages":[{"role":"system","content":"You build."},{"role":"user","content":"Please mend the build %d"}],"tools":[{"type":"function","function":{"name":"bash"}}]}`, from+i)
				res, _ := r.send(t, "POST", chatPath, nil, body)
				mu.Lock()
				defer mu.Unlock()
				out[res.Header.Get("Precept-Session")] = true
			})
		}
		wg.Wait()
		return out
	}
	if got := names(0); len(got) != 20 || !got["my-app"] {
		t.Fatalf("20 conversations under one key have the %d sessions %v, want 20 with one named my-app", len(got), got)
	}
	r.stop()
	r = newFixture(t, up, dir, book, injectAll())
	if got := names(100); len(got) != 20 || got["my-app"] {
		t.Errorf("after a restart 20 conversations have the %d sessions %v, want 20 without my-app", len(got), got)
	}
	one := func() string {
		res, _ := r.send(t, "POST", chatPath, nil, `{"prompt_cache_key":"another","messages":[{"role":"user","content":"Please mend the build"}]}`)
		return res.Header.Get("Precept-Session")
	}
	if first, second := one(), one(); first != "another" || second == first {
		t.Errorf("two conversations with equal words have sessions %s and %s, want \"another\" and a new session", first, second)
	}
	r.stop()
	r = newFixture(t, up, dir, book, injectAll())
	if again := one(); again == "another" {
		t.Errorf("after a restart the same words have session %q, want a new session", again)
	}
	up.mu.Lock()
	defer up.mu.Unlock()
	for _, s := range up.got {
		if strings.Count(string(s.body), "[one]") != 1 {
			t.Errorf(`the upstream got %s, want "[one]" exactly once`, s.body)
		}
	}
}
