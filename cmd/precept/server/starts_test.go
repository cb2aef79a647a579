package server_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"precept/cmd/precept/server"
	"precept/inject/bank/banktest"
	"precept/inject/lesson"
	"precept/learn"
	"precept/proxy"
	"precept/proxy/trace"
	"precept/store"
	"precept/store/redis"
	"precept/store/storetest"
)

// closing starts a model that closes each connection after the answer, because an open connection
// would stop the time of a synctest bubble.
func closing(t *testing.T, content string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Connection", "close")
		_, _ = fmt.Fprintf(w, `{"id":"chatcmpl-1","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":%q}}]}`, content)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

// turn sends a request of an agent with the words.
func (b *bubbled) turn(agent, words string) {
	b.t.Helper()
	body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}]}`, words)
	if status, answer := b.send(http.MethodPost, b.data+"/v1/chat/completions", body, "Precept-Agent", agent); status != http.StatusOK {
		b.t.Fatalf("got status %d, answer %q, want status 200", status, answer)
	}
}

// passes advances the time, and waits until all goroutines are idle.
func passes(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// nameOf returns the name of a function in stack traces.
func nameOf(f any) string { return runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name() }

// Every worker of a server starts, and no worker runs after the stop, which goleak checks.
func TestEveryWorkerStartsAndStops(t *testing.T) {
	collector := httptest.NewServer(http.NotFoundHandler())
	defer collector.Close()
	source := flags(t, injectAll(map[string]string{
		"upstream": model(t), "writ.enabled": "true", "distill.enabled": "true", "otel.endpoint": collector.URL,
		"ledger.file": filepath.Join(t.TempDir(), "AGENT.md"),
	}))
	saved(t, source)("{}\n")
	everywhere := map[string]int{
		nameOf((*store.Store).Run): 1, nameOf((*learn.Learner).Run): 1,
		nameOf((*proxy.Consulted).Run): 1, nameOf((*proxy.Proxy).ExecuteCommands): 1, "admin.(*sharedCache[...]).run": 2,
	}
	running(t, source, everywhere)
	running(t, source, map[string]int{
		nameOf((*lesson.Watcher).Run): 1, nameOf((*trace.Tracer).Run): 1, ".followLedger.": 1, ".runDistiller.": 1,
		"(*Source).watch.": 1,
	})
	t.Run("a fleet's", func(t *testing.T) {
		of := storetest.StartRedis(t).URL()
		running(t, flags(t, map[string]string{"store.url": of, "lessons": "redis://", "admin.tokens": "[token]"}), map[string]int{
			nameOf((*redis.Watcher).Run): 1, nameOf((*learn.Learner).Follow): 1, "(*keys).follow.": 1,
		})
	})
}

// running starts a server, and waits until so many goroutines run each function.
func running(t *testing.T, source *server.Source, functions map[string]int) {
	t.Helper()
	l := starts(t, source)
	for name, n := range functions {
		eventually(t, name, func() bool {
			_, stacks := send(t, http.MethodGet, l.admin+"/debug/pprof/goroutine?debug=2", map[string]string{"Authorization": "Bearer token"}, "")
			with := 0
			for stack := range strings.SplitSeq(stacks, "\n\n") {
				if strings.Contains(stack, name) {
					with++
				}
			}
			return with >= n
		})
	}
	if err := l.ends(); err != nil {
		t.Error(err)
	}
}

// A lesson in the directory takes effect within two seconds; so does a configuration, and the index
// is written again.
func TestChangedLessonTakesEffectInTwoSeconds(t *testing.T) {
	lessons := t.TempDir()
	inBubble(t, map[string]string{"lessons": lessons}, func(b *bubbled) {
		passes(time.Minute)
		banktest.WriteLesson(b.t, lessons, "look-first", "targets")
		passes(2 * time.Second)
		if status, _ := b.send(http.MethodGet, b.admin+"/lessons/look-first", ""); status != http.StatusOK {
			b.t.Errorf("/lessons/look-first: got status %d, want 200", status)
		}
		if index, err := os.ReadFile(filepath.Join(lessons, "_index.md")); err != nil || !strings.Contains(string(index), "look-first") {
			b.t.Errorf("the index is %q, want the lesson look-first: %v", index, err)
		}
	})
}

// A command in a model's reply is executed while the server serves, and not only at the stop.
func TestCommandInReplyIsExecutedWhileServing(t *testing.T) {
	inBubble(t, map[string]string{
		"upstream": closing(t, "/lesson grep first: Use grep before you read."), "writ.enabled": "true", "writ.trust": "own",
	}, func(b *bubbled) {
		b.turn("coder", "hello")
		passes(5 * time.Second)
		status, list := b.send(http.MethodGet, b.data+"/v1/lessons", "", "Precept-Agent", "coder")
		if status != http.StatusOK || !strings.Contains(list, "Use grep before you read.") {
			b.t.Errorf(`got status %d, list %s, want status 200 and list with "Use grep before you read."`, status, list)
		}
		if _, list := b.send(http.MethodGet, b.data+"/v1/lessons", "", "Precept-Agent", "other"); strings.Contains(list, "grep") {
			b.t.Errorf("another agent has the lesson, want none: %s", list)
		}
	})
}

// The counts of consulted lessons are written while the server serves, so that a crash loses some
// seconds at most, and the next start knows the counts.
func TestConsultationCountsAreWrittenWhileServing(t *testing.T) {
	data, lessons := t.TempDir(), t.TempDir()
	banktest.WriteLesson(t, lessons, "look-first", "targets")
	options := map[string]string{"upstream": closing(t, "done"), "data_dir": data, "lessons": lessons}
	file := filepath.Join(data, "consulted.json")
	inBubble(t, options, func(b *bubbled) {
		b.turn("coder", "build the targets")
		passes(5 * time.Second)
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), `"look-first"`) {
			b.t.Errorf("while the server runs the file is %q, want the lesson look-first: %v", text, err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			b.t.Errorf("got mode %v, %v, want 0600", info, err)
		}
	})
	for n, want := range []string{"", "the counts of consulted lessons cannot be read"} {
		l := starts(t, flags(t, options))
		if l.console.contains("they restart at zero") != (want != "") {
			t.Errorf("start %d: the log says that the counts restart at zero: %v, want %v", n, want == "", want != "")
		}
		if err := l.ends(); err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(file, []byte("half a fi"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A start that panics fails: one line reports the panic, and everything opened is closed, so that
// the next start finds the directory free.
func TestPanickingStartReleasesTheDirectory(t *testing.T) {
	source := flags(t, map[string]string{"admin.tokens": "[token]"})
	cfg := loaded(t, source)
	tools := outside()
	tools.Random = panicking{}
	err := server.New(server.Options{Tools: tools, Config: cfg, Console: io.Discard, Embedded: true}).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "thrown by the test") || !strings.Contains(err.Error(), "report the panic") {
		t.Errorf("the start ended with %v, want the panic of the test and the request for a report", err)
	}
	if server.IsLocked(cfg.DataDir) {
		t.Error("the data directory is locked, want unlocked")
	}
	if err := starts(t, source).ends(); err != nil {
		t.Errorf("the next start: %v", err)
	}
}

// panicking is a random source that panics when the store creates its secrets.
type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic("thrown by the test") }
