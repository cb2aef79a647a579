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

// startClosingModel starts a model that closes each connection after the reply. An open connection would stop the clock
// of a synctest bubble.
func startClosingModel(t *testing.T, content string) string {
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

func (b *bubbleServer) sendTurn(agent, text string) {
	b.t.Helper()
	body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}]}`, text)
	if status, answer := b.send(http.MethodPost, b.dataURL+"/v1/chat/completions", body, "Precept-Agent", agent); status != http.StatusOK {
		b.t.Fatalf("%s chat request: got status %d, body %q, want status 200", agent, status, answer)
	}
}

func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func funcName(f any) string { return runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name() }

// This test checks that the workers start. TestMain checks with goleak that they end.
func TestWorkersStartAndStop(t *testing.T) {
	collector := httptest.NewServer(http.NotFoundHandler())
	defer collector.Close()
	source := newFlagSource(t, injectAllOptions(map[string]string{
		"upstream": startModel(t), "writ.enabled": "true", "distill.enabled": "true", "otel.endpoint": collector.URL,
		"ledger.file": filepath.Join(t.TempDir(), "AGENT.md"),
	}))
	addConfigFile(t, source)("{}\n")
	always := map[string]int{
		funcName((*store.Store).Run): 1, funcName((*learn.Learner).Run): 1,
		funcName((*proxy.ConsultationCounter).Run): 1, funcName((*proxy.Proxy).ExecuteCommands): 1, "admin.(*sharedCache[...]).run": 2,
	}
	checkGoroutines(t, source, always)
	checkGoroutines(t, source, map[string]int{
		funcName((*lesson.Watcher).Run): 1, funcName((*trace.Tracer).Run): 1, ".ledgerWorker.": 1, ".distillerWorker.": 1,
		"(*Source).watch.": 1,
	})
	t.Run("with Redis", func(t *testing.T) {
		url := storetest.StartRedis(t).URL()
		checkGoroutines(t, newFlagSource(t, map[string]string{"store.url": url, "lessons": "redis://", "admin.tokens": "[token]"}), map[string]int{
			funcName((*redis.Watcher).Run): 1, funcName((*learn.Learner).Follow): 1, "(*keys).follow.": 1,
		})
	})
}

// checkGoroutines starts a server, waits until each function runs in at least the given number of goroutines, and stops
// the server.
func checkGoroutines(t *testing.T, source *server.Source, functions map[string]int) {
	t.Helper()
	s := startServer(t, source)
	for name, n := range functions {
		eventually(t, "goroutine "+name, func() bool {
			_, stacks := send(t, http.MethodGet, s.adminURL+"/debug/pprof/goroutine?debug=2", map[string]string{"Authorization": "Bearer token"}, "")
			found := 0
			for stack := range strings.SplitSeq(stacks, "\n\n") {
				if strings.Contains(stack, name) {
					found++
				}
			}
			return found >= n
		})
	}
	if err := s.stopAndWait(); err != nil {
		t.Error(err)
	}
}

// The dashboard and the index of the lessons, _index.md, list all lessons in effect.
func TestNewLessonTakesEffectWithinTwoSeconds(t *testing.T) {
	lessons := t.TempDir()
	runInBubble(t, map[string]string{"lessons": lessons}, func(b *bubbleServer) {
		advance(time.Minute)
		banktest.WriteLesson(b.t, lessons, "look-first", "targets")
		advance(2 * time.Second)
		if status, _ := b.send(http.MethodGet, b.adminURL+"/lessons/look-first", ""); status != http.StatusOK {
			b.t.Errorf("/lessons/look-first: got status %d, want 200", status)
		}
		if index, err := os.ReadFile(filepath.Join(lessons, "_index.md")); err != nil || !strings.Contains(string(index), "look-first") {
			b.t.Errorf("_index.md: got %q, error %v, want it to contain look-first", index, err)
		}
	})
}

// If an agent's reply contains a /lesson command, precept creates the lesson for this agent only.
func TestLessonCommandInReplyCreatesLesson(t *testing.T) {
	runInBubble(t, map[string]string{
		"upstream": startClosingModel(t, "/lesson grep first: Use grep before you read."), "writ.enabled": "true", "writ.trust": "own",
	}, func(b *bubbleServer) {
		b.sendTurn("coder", "hello")
		advance(5 * time.Second)
		status, list := b.send(http.MethodGet, b.dataURL+"/v1/lessons", "", "Precept-Agent", "coder")
		if status != http.StatusOK || !strings.Contains(list, "Use grep before you read.") {
			b.t.Errorf(`/v1/lessons: got status %d, body %s, want status 200 and a body that contains "Use grep before you read."`, status, list)
		}
		if _, list := b.send(http.MethodGet, b.dataURL+"/v1/lessons", "", "Precept-Agent", "other"); strings.Contains(list, "grep") {
			b.t.Errorf("/v1/lessons for another agent: got %s, want no lesson about grep", list)
		}
	})
}

// The server writes the counts to consulted.json every five seconds, so a crash loses the counts of at most five
// seconds. If the file is damaged, the next server starts with counts of zero.
func TestConsultationCountsAreWrittenWhileServerRuns(t *testing.T) {
	data, lessons := t.TempDir(), t.TempDir()
	banktest.WriteLesson(t, lessons, "look-first", "targets")
	options := map[string]string{"upstream": startClosingModel(t, "done"), "data_dir": data, "lessons": lessons}
	file := filepath.Join(data, "consulted.json")
	runInBubble(t, options, func(b *bubbleServer) {
		b.sendTurn("coder", "build the targets")
		advance(5 * time.Second)
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), `"look-first"`) {
			b.t.Errorf("consulted.json while the server runs: got %q, error %v, want it to contain look-first", text, err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			b.t.Errorf("permissions of consulted.json: got %v, error %v, want mode 0600", info, err)
		}
	})
	for _, damaged := range []bool{false, true} {
		s := startServer(t, newFlagSource(t, options))
		if s.console.contains("they restart at zero") != damaged {
			t.Errorf("start with consulted.json damaged = %v: log contains \"they restart at zero\" = %v, want %v", damaged, !damaged, damaged)
		}
		if err := s.stopAndWait(); err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(file, []byte("half a fi"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPanicDuringStartReleasesDataDirectory(t *testing.T) {
	source := newFlagSource(t, map[string]string{"admin.tokens": "[token]"})
	cfg := loadConfig(t, source)
	tools := testTools()
	tools.Random = panickingReader{}
	err := server.New(server.Options{Tools: tools, Config: cfg, Console: io.Discard, Embedded: true}).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "thrown by the test") || !strings.Contains(err.Error(), "report the panic") {
		t.Errorf("Run: err = %v, want an error that contains \"thrown by the test\" and \"report the panic\"", err)
	}
	if server.IsLocked(cfg.DataDir) {
		t.Error("IsLocked(data directory) after the panic = true, want false")
	}
	if err := startServer(t, source).stopAndWait(); err != nil {
		t.Errorf("next start on the same data directory: err = %v, want none", err)
	}
}

// panickingReader is a source of random bytes that panics when the store reads the bytes for a secret.
type panickingReader struct{}

func (panickingReader) Read([]byte) (int, error) { panic("thrown by the test") }
