package learning

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"precept/bandit/report"
	"precept/inject/backtest"
	"precept/test/harness"
)

const similarLesson = `---
schema: learning/v1
slug: keep-old-endpoints
title: Keep the old endpoint beside the new one.
trigger:
  description: The user asks for another name of an endpoint.
  metadata:
    precept:
      keywords:
        - rename the endpoint
        - remove the endpoint
      like: true
outcome: success
evidence:
  - kind: wiki-page
    ref: notes.md
---
# Keep the old endpoint

## What to do (or avoid)

Add the new name and keep the old one for a release.
`

// Matching by likeness (by similar words) begins when the store contains 200 sessions.
func TestLessonMatchesByLikeness(t *testing.T) {
	t.Parallel()
	const paraphrase = "We want the orders endpoint to be called purchases, please rename it."
	for name, tc := range map[string]struct {
		sessions int
		flags    []string
		matches  bool
	}{
		"200 sessions":        {200, nil, true},
		"199 sessions":        {199, nil, false},
		"match.like: suggest": {200, []string{"--match-like", "suggest"}, false},
		"match.like: off":     {200, []string{"--match-like", "off"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, harness.ChatReply("u", "done")) }))
			defer model.Close()
			dir, lessons := t.TempDir(), t.TempDir()
			if err := os.WriteFile(filepath.Join(lessons, "keep-old-endpoints.md"), []byte(similarLesson), 0o600); err != nil {
				t.Fatal(err)
			}
			importFile := filepath.Join(t.TempDir(), "past.jsonl")
			var lines strings.Builder
			for i := range tc.sessions {
				fmt.Fprintf(&lines, `{"source":"past","id":"s%d","messages":[{"role":"user","content":"Answer question %d about the opening hours of our shop."},{"role":"assistant","content":"ok"}]}`+"\n", i, i)
			}
			if err := os.WriteFile(importFile, []byte(lines.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			harness.MustRun(t, "import", importFile, "--data-dir", dir)
			p := harness.Start(t, dir, append([]string{
				"--upstream", model.URL + "/v1", "--lessons", lessons, "--debug-headers", "--reward-close-after", "1s",
				"--bandit-objective", "all", "--bandit-epsilon", "0", "--bandit-control", "0",
			}, tc.flags...)...)
			ask := func(session string) string {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.DataURL+"/v1/chat/completions",
					strings.NewReader(`{"model":"m","messages":[{"role":"user","content":`+quote(paraphrase)+`}]}`))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Precept-Session", session)
				res, err := http.DefaultTransport.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				_ = res.Body.Close()
				return res.Header.Get("Precept-Lessons")
			}
			if !tc.matches {
				for i := range 3 {
					if got := ask(fmt.Sprint("session-", i)); got != "" {
						t.Errorf("lessons for the paraphrase: got %s, want none", got)
					}
				}
				return
			}
			n := 0
			p.Eventually("the lesson to match by likeness", func() bool {
				n++
				return ask(fmt.Sprint("session-", n)) == "keep-old-endpoints~like"
			})
			p.Eventually("matches of keep-old-endpoints~like in the report, and no match of keep-old-endpoints", func() bool {
				_, body := harness.Get(t, p.AdminURL+"/api/report", "e2e-token")
				var r report.Report
				if err := json.Unmarshal([]byte(body), &r); err != nil {
					t.Fatal(err)
				}
				matched := map[string]int64{}
				for i := range r.Lessons {
					matched[r.Lessons[i].Slug] = r.Lessons[i].Matched
				}
				return matched["keep-old-endpoints~like"] > 0 && matched["keep-old-endpoints"] == 0
			})
		})
	}
}

// A near miss is a session that almost matches the lesson. precept proposes phrases from near misses as triggers.
func TestNearMissPhrasesAreProposed(t *testing.T) {
	t.Parallel()
	dir, lessons := t.TempDir(), t.TempDir()
	file, importFile := filepath.Join(lessons, "keep-old-endpoints.md"), filepath.Join(t.TempDir(), "past.jsonl")
	var lines strings.Builder
	for i := range 200 {
		message := fmt.Sprintf("Answer question %d about the opening hours of our shop.", i)
		if i == 77 {
			message = "Please rename that endpoint soon."
		}
		if i == 88 {
			message = "We call that endpoint a new name, so rename it."
		}
		fmt.Fprintf(&lines, `{"source":"past","id":"s%d","messages":[{"role":"user","content":%s},{"role":"assistant","content":"ok"}]}`+"\n", i, quote(message))
	}
	for name, text := range map[string]string{file: similarLesson, importFile: lines.String()} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	harness.MustRun(t, "import", importFile, "--data-dir", dir)
	var answer struct {
		Proposals []backtest.PhraseProposal `json:"proposals"`
		Accepted  []string                  `json:"accepted"`
		Refused   int                       `json:"refused"`
	}
	storeFlags := []string{"--json", "--data-dir", dir, "--lessons", lessons}
	out := harness.MustRun(t, append([]string{"lessons", "phrases", "keep-old-endpoints", "--accept", "rename that endpoint"}, storeFlags...)...)
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		t.Fatal(err)
	}
	if p := answer.Proposals; len(p) == 0 || p[0].Phrase != "rename that endpoint" || p[0].Matched != 1 || p[0].Examples[0].Excerpt != "Please rename that endpoint soon." {
		t.Errorf("proposals = %s, want \"rename that endpoint\" as the first proposal, with one session and an excerpt", out)
	}
	edited, err := os.ReadFile(file)
	if want := strings.Replace(similarLesson, "        - remove the endpoint\n", "        - remove the endpoint\n        - rename that endpoint\n", 1); err != nil || string(edited) != want {
		t.Errorf("lesson file after the edit: got error %v, content %s, want %q in it", err, edited, want)
	}
	judge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		question, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(question), "call that endpoint") {
			http.Error(w, "the question lacks the near miss", http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"{\"phrases\":[\"endpoint a new name\",\"opening hours\"]}"}}]}`)
	}))
	defer judge.Close()
	judgeArgs := append([]string{"lessons", "phrases", "keep-old-endpoints", "--judge"}, storeFlags...)
	out = harness.MustRun(t, append(judgeArgs, "--distill-judge", judge.URL, "--distill-model", "m")...)
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		t.Fatal(err)
	}
	if p := answer.Proposals; p[len(p)-1].By != "judge" || p[len(p)-1].Phrase != "endpoint a new name" || p[len(p)-1].Matched != 1 || answer.Refused != 1 {
		t.Errorf("proposals with a judge = %s, want the judge's phrase \"endpoint a new name\" as the last, with one session, and one refused phrase", out)
	}
	if _, stderr, code := harness.RunCommand(t, "", judgeArgs...); code != harness.ExitMisuse || !strings.Contains(stderr, "distill.judge") {
		t.Errorf("lessons phrases --judge without a configured judge: got exit code %d, standard error %q, want %d and the key distill.judge", code, stderr, harness.ExitMisuse)
	}
	tried := harness.MustRun(t, append([]string{"lessons", "try", "a new name for this endpoint, rename it"}, storeFlags...)...)
	if !strings.Contains(tried, `"suggestions"`) || !strings.Contains(tried, `"injected": true`) {
		t.Errorf("lessons try = %s, want suggestions and an injected lesson", tried)
	}
	_, stderr, code := harness.RunCommand(t, "", append([]string{"lessons", "phrases", "keep-old-endpoints", "--accept", "99"}, storeFlags...)...)
	if code != harness.ExitMisuse || !strings.Contains(stderr, "does not exist") {
		t.Errorf("lessons phrases --accept 99: got exit code %d, standard error %q, want %d and \"does not exist\"", code, stderr, harness.ExitMisuse)
	}
}

// precept computes the embedding of a user message in the background, so a lesson can match only in a later turn.
// precept sends no secrets, no client keys and no requests with Precept-Learn: off to the embeddings endpoint.
func TestLessonMatchesByEmbeddingsInLaterTurn(t *testing.T) {
	t.Parallel()
	var sent strings.Builder
	var mu sync.Mutex
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/v1/embeddings" {
			_, _ = io.WriteString(w, harness.ChatReply("u", "done"))
			return
		}
		var q struct {
			Input []string `json:"input"`
		}
		if err := json.Unmarshal(body, &q); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(&sent, r.Header, q.Input)
		data := []any{}
		for i, text := range q.Input {
			vector := []int{0, 1}
			if strings.Contains(text, "endpoint") || strings.Contains(text, "path of the orders") {
				vector = []int{1, 0}
			}
			data = append(data, map[string]any{"index": i, "embedding": vector})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": data})
	}))
	defer upstream.Close()
	dir, lessons, importFile := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "past.jsonl")
	var lines strings.Builder
	for i := range 200 {
		fmt.Fprintf(&lines, `{"source":"past","id":"s%d","messages":[{"role":"user","content":"Answer question %d about the opening hours of our shop."},{"role":"assistant","content":"ok"}]}`+"\n", i, i)
	}
	for name, text := range map[string]string{filepath.Join(lessons, "keep-old-endpoints.md"): similarLesson, importFile: lines.String()} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	harness.MustRun(t, "import", importFile, "--data-dir", dir)
	p := harness.Start(t, dir,
		"--upstream", upstream.URL+"/v1", "--lessons", lessons, "--debug-headers", "--bandit-objective", "all", "--bandit-epsilon", "0", "--bandit-control", "0",
		"--match-embeddings-upstream", "default", "--match-embeddings-model", "small", "--match-embeddings-api-key", "sk-own",
	)
	ask := func(session, learn string, messages ...string) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.DataURL+"/v1/chat/completions",
			strings.NewReader(`{"model":"m","messages":[`+strings.Join(messages, ",")+`]}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Precept-Session", session)
		req.Header.Set("Precept-Learn", learn)
		req.Header.Set("Authorization", "Bearer sk-client")
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.Header.Get("Precept-Lessons")
	}
	messageJSON := func(role, text string) string { return `{"role":"` + role + `","content":` + quote(text) + `}` }
	ask("private", "off", messageJSON("user", "The path of the orders is a private matter."))
	n := 0
	p.Eventually("the lesson to match by embeddings", func() bool {
		n++
		session, turn := fmt.Sprint("session-", n/20), n%20 // 20 turns per session
		messages := []string{messageJSON("user", "Can the path of the orders say purchases? My password is hunter2-Xk9!")}
		for i := range turn {
			messages = append(messages, messageJSON("assistant", "done"), messageJSON("user", fmt.Sprint("Thanks. Next, number ", i)))
		}
		got := ask(session, "", messages...)
		if turn == 0 && got != "" {
			t.Errorf("lessons in the first turn: got %s, want none", got)
		}
		return got == "keep-old-endpoints~like"
	})
	mu.Lock()
	defer mu.Unlock()
	for _, secret := range []string{"private matter", "hunter2", "sk-client"} {
		if strings.Contains(sent.String(), secret) {
			t.Errorf("the embeddings endpoint received %q, want no secret, no client key and no opted-out text", secret)
		}
	}
	if !strings.Contains(sent.String(), "Bearer sk-own") {
		t.Errorf("embedding requests = %.300s, want the header Authorization: Bearer sk-own", sent.String())
	}
}
