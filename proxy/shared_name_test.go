package proxy_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// The conversation object at the provider already contains the lesson, so a repeated message does not get the lesson
// again.
func TestConversationObjectKeepsSession(t *testing.T) {
	up := newUpstream(t, newModel(t))
	f := newFixture(t, up, "", newBook(t, "one: continue"), injectAll())
	for _, input := range []string{`"hello"`, `"continue"`, `"continue"`, `[{"role":"user","content":"ok"}]`, `[{"role":"user","content":"ok"}]`} {
		res, _ := f.send(t, "POST", "/v1/responses", nil, `{"model":"m","conversation":{"id":"conv_1"},"input":`+input+`}`)
		if got := res.Header.Get("Precept-Session"); got != "conv_1" {
			t.Errorf("input %s: session = %q, want conv_1", input, got)
		}
	}
	up.mu.Lock()
	defer up.mu.Unlock()
	blocks := 0
	for _, s := range up.requests {
		blocks += strings.Count(string(s.body), "[one]")
	}
	if len(up.requests) != 5 {
		t.Errorf("the upstream: requests = %+v, want 5 items", up.requests)
	}
	if blocks != 1 {
		t.Errorf("the upstream: blocks = %d, want 1", blocks)
	}
}

// Some applications send one prompt_cache_key in all conversations.
func TestSharedCacheKeyKeepsSessionsSeparate(t *testing.T) {
	up := newUpstream(t, newModel(t))
	dir, book := t.TempDir(), newBook(t, "one: fix the build")
	f := newFixture(t, up, dir, book, injectAll())
	startConversations := func(from int) map[string]bool {
		var mu sync.Mutex
		var wg sync.WaitGroup
		out := map[string]bool{}
		for i := range 20 {
			wg.Go(func() {
				body := fmt.Sprintf(`{"prompt_cache_key":"my-app","messages":[{"role":"system","content":"You build."},{"role":"user","content":"Please fix the build %d"}],"tools":[{"type":"function","function":{"name":"bash"}}]}`, from+i)
				res, _ := f.send(t, "POST", chatPath, nil, body)
				mu.Lock()
				defer mu.Unlock()
				out[res.Header.Get("Precept-Session")] = true
			})
		}
		wg.Wait()
		return out
	}
	if got := startConversations(0); len(got) != 20 {
		t.Fatalf("sessions = %v, want 20", got)
	} else if !got["my-app"] {
		t.Fatal("no session has the name my-app")
	}
	f.stop()
	f = newFixture(t, up, dir, book, injectAll())
	if got := startConversations(100); len(got) != 20 {
		t.Errorf("sessions after a restart = %v, want 20", got)
	} else if got["my-app"] {
		t.Error("a session has the name my-app after a restart")
	}
	sendEqual := func() string {
		res, _ := f.send(t, "POST", chatPath, nil, `{"prompt_cache_key":"another","messages":[{"role":"user","content":"Please fix the build"}]}`)
		return res.Header.Get("Precept-Session")
	}
	if first, second := sendEqual(), sendEqual(); first != "another" {
		t.Errorf(`two equal first requests = %q, want "another"`, first)
	} else if second == first {
		t.Errorf("both first requests have session %q, want two sessions", second)
	}
	f.stop()
	f = newFixture(t, up, dir, book, injectAll())
	if third := sendEqual(); third == "another" {
		t.Errorf("equal first request after a restart: session = %q, want a new one", third)
	}
	up.mu.Lock()
	defer up.mu.Unlock()
	for _, s := range up.requests {
		if strings.Count(string(s.body), "[one]") != 1 {
			t.Errorf("the upstream got %s, want [one] exactly once", s.body)
		}
	}
}
