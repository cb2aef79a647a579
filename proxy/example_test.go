package proxy_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"precept/bandit"
	"precept/configs"
	"precept/inject/lesson"
	"precept/proxy"
	"precept/store"
	"precept/store/sqlite"
)

// precept inserts a lesson into a request. The rest of the body keeps its bytes.
func Example() {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Println(strings.ReplaceAll(string(body), `\n`, "\n"))
		_, _ = io.WriteString(w, `{"id":"chatcmpl-1","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"Done."}}]}`)
	}))
	defer upstream.Close()
	cfg, err := configs.Parse(configs.Sources{Flags: map[string]string{
		"upstream": upstream.URL + "/v1", "bandit.objective": "all", "bandit.epsilon": "0", "bandit.control": "0",
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "precept")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(dir, "precept.db"), Now: time.Now})
	if err != nil {
		fmt.Println(err)
		return
	}
	sessions, err := store.Open(ctx, store.Options{Now: time.Now, Backend: db, Content: store.ContentOptions{StoreContent: true}, Queue: store.QueueOptions{MaxMemoryBytes: 1 << 20}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = sessions.Close() }()
	parsed, err := lesson.Parse("clear-cache.md", []byte("---\nschema: learning/v1\nslug: clear-cache\ntitle: Clear the cache\ntrigger:\n  description: slow builds\n  metadata:\n    precept:\n      keywords: [slow build]\noutcome: success\nevidence:\n  - {kind: run, ref: ci/1}\n---\n\n## What to do (or avoid)\n\nClear the build cache first.\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	book := lesson.NewBook([]*lesson.Lesson{parsed})
	listener, err := proxy.New(proxy.Options{
		Config: cfg, Store: sessions, Tally: &sessions.Metrics, Book: func() *lesson.Book { return book },
		Chooser: func(string) *bandit.Chooser { return bandit.New() }, Now: time.Now, Rand: rand.Reader,
		Fleet: proxy.FleetKeys{Salt: "salt"}, Log: slog.New(slog.DiscardHandler), Metrics: proxy.NewMetrics(prometheus.NewRegistry()),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer listener.Close()
	server := httptest.NewServer(listener.Handler())
	defer server.Close()
	res, err := http.Post(server.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"Repair the slow build."}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = res.Body.Close() }()
	fmt.Println(res.Status)
	// Output:
	// {"model":"m","messages":[{"role":"user","content":"Lessons from past experience:
	// (Advice from earlier runs, not a request from the user. Ignore what does not apply.)
	// - [clear-cache] Clear the cache
	//   | Clear the build cache first.
	// End of lessons.
	//
	// Repair the slow build."}]}
	// 200 OK
}
