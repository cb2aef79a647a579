package proxy_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"precept/internal/label"
	"precept/proxy"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"precept/bandit/feedback"
	"precept/configs"
	"precept/inject/lesson"
	"precept/learn"
	"precept/store"
	"precept/store/sqlite"
)

// TestMain makes the proxy trust the certificate of httptest servers.
func TestMain(m *testing.M) {
	srv := httptest.NewTLSServer(nil)
	pool := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	srv.Close()
	dir, err := os.MkdirTemp("", "precept-test")
	if err != nil {
		panic(err)
	}
	file := filepath.Join(dir, "roots.pem")
	if err := errors.Join(os.WriteFile(file, pool, 0o600), os.Setenv("SSL_CERT_FILE", file)); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

type receivedRequest struct {
	method, uri string
	header      http.Header
	body        []byte
	length      int64 // Content-Length
	trailer     http.Header
}

// upstream is a simulated provider that records all requests.
type upstream struct {
	*httptest.Server
	mu       sync.Mutex
	requests []receivedRequest
	reply    http.HandlerFunc
}

// newUpstream starts an upstream that answers with reply, or with the text "fine" if reply is nil.
func newUpstream(t testing.TB, reply http.HandlerFunc) *upstream {
	t.Helper()
	u := &upstream{reply: reply}
	if reply == nil {
		u.reply = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, chatReply("chatcmpl-1", "fine"))
		}
	}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		u.mu.Lock()
		u.requests = append(u.requests, receivedRequest{r.Method, r.RequestURI, r.Header.Clone(), body, r.ContentLength, r.Trailer.Clone()})
		u.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		u.reply(w, r)
	}))
	t.Cleanup(u.Close)
	return u
}

// upstreamAt wraps the server at url in an upstream that does not record the requests.
func upstreamAt(url string) *upstream { return &upstream{Server: &httptest.Server{URL: url}} }

func (u *upstream) lastRequest(t *testing.T) receivedRequest {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.requests) == 0 {
		t.Fatal("the upstream got no request")
	}
	return u.requests[len(u.requests)-1]
}

func (u *upstream) requestCount() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.requests)
}

func chatReply(id, text string) string {
	return fmt.Sprintf(`{"id":%q,"object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":%q}}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`, id, text)
}

// fixture is a proxy on a local port, with store, learner and upstream.
type fixture struct {
	*proxy.Proxy
	url  string
	dir  string // data directory
	up   *upstream
	stop func()

	learned *learn.Metrics
}

// injectAll returns settings that inject every matching lesson into every session.
func injectAll() map[string]string {
	return map[string]string{"bandit.objective": "all", "bandit.epsilon": "0", "bandit.control": "0"}
}

// newFixture starts a proxy with a store in dir, or in a new directory if dir is "".
func newFixture(t testing.TB, up *upstream, dir string, book *lesson.Book, flags map[string]string) *fixture {
	t.Helper()
	if dir == "" {
		dir = t.TempDir()
	}
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(dir, "precept.db"), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	f := newFixtureOn(t, up, db, book, flags)
	f.dir = dir
	return f
}

// newDefaultFixture starts a proxy with the default settings and without lessons.
func newDefaultFixture(t testing.TB, up *upstream) *fixture {
	t.Helper()
	return newFixture(t, up, "", nil, nil)
}

type backend interface {
	store.Backend
	learn.Backend
}

// newFixtureOn works like newFixture, with an open backend instead of a directory.
func newFixtureOn(t testing.TB, up *upstream, db backend, book *lesson.Book, flags map[string]string) *fixture {
	t.Helper()
	all := map[string]string{"upstream": up.URL + "/v1", "limits.drain_timeout": "1s"}
	maps.Copy(all, flags)
	cfg, err := configs.Parse(configs.Sources{Flags: all})
	if err != nil {
		t.Fatal(err)
	}
	reward := feedback.Definition{CloseAfter: cfg.Reward.CloseAfter, Tiers: []int{1, 2, 3}}
	st, err := store.Open(t.Context(), store.Options{
		Now: time.Now, Backend: db, LookupTimeout: 5 * time.Second,
		Queue: store.QueueOptions{MaxMemoryBytes: int64(cfg.Limits.CaptureTotalBytes)}, Content: store.ContentOptions{StoreContent: cfg.Learning.Enabled, RedactPersonal: true},
		Hooks: store.Hooks{OnFailure: func(step label.Step, err error) { t.Logf("step %s failed: %v", step, err) }, OnPanic: func(step label.Step, v any) { t.Errorf("step %s panicked: %v", step, v) }},
	})
	if err != nil {
		t.Fatal(err)
	}
	learner, err := learn.Open(t.Context(), learn.Options{
		Now: time.Now, Backend: db, Memory: st, Deliverer: st, Touches: st, Guard: st.Guard(), Reward: reward, KeepSamples: cfg.Learning.Enabled,
		OnFailure: func(step label.Step, err error) { t.Logf("step %s failed: %v", step, err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if book == nil {
		book = lesson.NewBook(nil)
	}
	p, err := proxy.New(proxy.Options{
		Config: cfg, Store: st, Tally: &st.Metrics, Chooser: learner.Beliefs, Book: func() *lesson.Book { return book }, Now: time.Now, Rand: rand.Reader,
		Fleet: proxy.FleetKeys{Salt: "test", Secret: []byte("secret")}, Log: slog.New(slog.NewTextHandler(testLog{t}, nil)),
		Metrics: proxy.NewMetrics(prometheus.NewRegistry()),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = st.Run(ctx) })
	wg.Go(func() { _ = learner.Run(ctx, st.Done()) })
	srv := httptest.NewServer(p.Handler())
	var once sync.Once
	f := &fixture{Proxy: p, url: srv.URL, up: up, learned: &learner.Metrics}
	f.stop = func() {
		once.Do(func() {
			srv.Close()
			cancel()
			wg.Wait()
			p.Close()
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(f.stop)
	return f
}

type testLog struct{ t testing.TB }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// client returns a client that requests no compression and follows no redirects.
func client(t *testing.T) *http.Client {
	t.Helper()
	tr := &http.Transport{DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func (f *fixture) send(t *testing.T, method, path string, header http.Header, body string) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, f.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(req.Header, header)
	res, err := client(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("read response body: %v", err)
	}
	return res, got
}

const chatPath = "/v1/chat/completions"

// chat sends a chat request, and fails the test unless the status is 200.
func (f *fixture) chat(t *testing.T, header http.Header, body string) []byte {
	t.Helper()
	res, got := f.send(t, http.MethodPost, chatPath, header, body)
	if res.StatusCode != http.StatusOK {
		t.Fatalf("got status %d, body %s, want status 200", res.StatusCode, got)
	}
	return got
}

// newBook returns a book of lessons, each given as "slug: keyword".
func newBook(t testing.TB, lessons ...string) *lesson.Book {
	t.Helper()
	var all []*lesson.Lesson
	for _, l := range lessons {
		slug, keyword, _ := strings.Cut(l, ": ")
		text := fmt.Sprintf("---\nschema: learning/v1\nslug: %s\ntitle: Follow %s\ntrigger:\n  description: when it says %s\n  metadata:\n    precept:\n      keywords: [%q]\noutcome: success\nevidence:\n  - kind: run\n    ref: test/%s\n---\n\n# Follow %s\n\n## What to do (or avoid)\n\nDo as %s says.\n",
			slug, slug, keyword, keyword, slug, slug, slug)
		parsed, err := lesson.Parse(slug+".md", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, parsed)
	}
	return lesson.NewBook(all)
}

// counter returns the value of a counter with a short name (see Metrics.Series) and label values.
func (f *fixture) counter(shortName string, labels ...string) float64 {
	return testutil.ToFloat64(f.Options().Metrics.Series(shortName).WithLabelValues(labels...))
}

func (f *fixture) inFlightCount() int64 { n, _, _ := f.InFlight(); return n }

func (f *fixture) bodyBytes() int64 { _, n, _ := f.InFlight(); return n }

func (f *fixture) copyBytes() int64 { _, _, n := f.InFlight(); return n }
