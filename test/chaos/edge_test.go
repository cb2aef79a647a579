package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"precept/internal/sample"
	"precept/test/harness"
)

// goroutinesAndFiles returns how many goroutines and how many open files the server has.
func goroutinesAndFiles(t *testing.T, p *harness.Process) (goroutines, files int) {
	t.Helper()
	_, text := harness.Get(t, p.AdminURL+"/debug/pprof/goroutine?debug=1", "token")
	m := regexp.MustCompile(`total (\d+)`).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("profile %.200s has no goroutine count", text)
	}
	goroutines, _ = strconv.Atoi(m[1])
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID))
	if err != nil {
		t.Skip(err)
	}
	return goroutines, len(list)
}

func residentMemory(t *testing.T, p *harness.Process) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.PID))
	if err != nil {
		t.Skip(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// When a client disconnects, precept must disconnect from the upstream, and must store the part of the reply that the
// client received.
func TestChaosClientDisconnectsReachTheUpstream(t *testing.T) {
	const clients, pieces = 40, 100
	var disconnected, completed atomic.Int64
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range pieces {
			if i > pieces/2 { // even a client that disconnects late must not see a complete stream
				<-r.Context().Done()
				disconnected.Add(1)
				return
			}
			_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"piece %d. \"}}]}\n\n", i)
			_ = http.NewResponseController(w).Flush()
		}
		completed.Add(1)
	}))
	t.Cleanup(model.Close)
	dir := t.TempDir()
	p := harness.StartWithUpstream(t, dir, model.URL)
	goroutines, files := goroutinesAndFiles(t, p)
	for range clients {
		ctx, disconnect := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.DataURL+"/v1/chat/completions",
			strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"count"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(res.Body)
		for range 2 * pieces * 3 / 10 { // 30 pieces with two lines each
			if _, err := lines.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		disconnect()
		_ = res.Body.Close()
	}
	p.Eventually("the upstream to see every disconnect", func() bool { return disconnected.Load() == clients })
	// The server may have four more goroutines and four more files than before, because the check itself opens a
	// connection and some goroutines stay idle.
	p.Eventually("the streams' goroutines and files to end", func() bool {
		g, f := goroutinesAndFiles(t, p)
		return g <= goroutines+4 && f <= files+4
	})
	p.Eventually("all exchanges stored", func() bool { return harness.Doctor(t, dir).Stored == clients })
	p.Stop()
	for _, list := range harness.ExchangesInFile(t, dir) {
		if x := list[0]; x.Outcome != sample.Aborted || !strings.Contains(x.Reply.Text, "piece 20. ") {
			t.Errorf("exchange of a client that disconnected: got outcome %s and reply %.80q, want outcome %s and a reply with piece 20", x.Outcome, x.Reply.Text, sample.Aborted)
		}
	}
	if completed.Load() > 0 {
		t.Errorf("streams that the upstream sent completely: got %d, want 0", completed.Load())
	}
}

func TestChaosLargeHeadersAreBounded(t *testing.T) {
	dir := t.TempDir()
	p := harness.StartWithUpstream(t, dir, harness.InstantModel(t).URL)
	ended := harness.Stream(t, p.DataURL)
	sendHeaders := func(headers func(w io.Writer)) string {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(p.DataURL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		go func() {
			_, _ = io.WriteString(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n")
			headers(c)
			_, _ = io.WriteString(c, "\r\n{}")
		}()
		line, _ := bufio.NewReader(c).ReadString('\n')
		return strings.TrimSpace(line)
	}
	if line := sendHeaders(func(w io.Writer) { _, _ = io.WriteString(w, "X: "+strings.Repeat("x", 2<<20)+"\r\n") }); !strings.HasPrefix(line, "HTTP/1.1 431 ") {
		t.Errorf("2 MB header: got %q, want status 431", line)
	}
	statusLine := sendHeaders(func(w io.Writer) {
		for i := range 10_000 {
			_, _ = fmt.Fprintf(w, "X-%d: %d\r\n", i, i)
		}
	})
	if !strings.HasPrefix(statusLine, "HTTP/1.1 200 ") && !strings.HasPrefix(statusLine, "HTTP/1.1 431 ") {
		t.Errorf("10,000 headers: got %q, want status 200 or 431", statusLine)
	}
	before := residentMemory(t, p)
	_ = sendHeaders(func(w io.Writer) { // one header with 500 MB
		_, _ = io.WriteString(w, "X: ")
		piece := strings.Repeat("x", 1<<20)
		for range 500 {
			if _, err := io.WriteString(w, piece); err != nil {
				return
			}
		}
	})
	if after := residentMemory(t, p); after > before+64<<20 {
		t.Errorf("memory after the 500 MB header: got %d MiB, want at most 64 MiB more than the %d MiB before", after>>20, before>>20)
	}
	if err := <-ended; err != nil {
		t.Errorf("parallel stream: got error %v, want a complete stream", err)
	}
	p.Stop()
}

func TestChaosRequestsAreUnchangedWithoutReadableLessons(t *testing.T) {
	var got atomic.Pointer[string]
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		text := string(b)
		got.Store(&text)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, harness.ChatReply("c", "fine"))
	}))
	t.Cleanup(model.Close)
	for name, prepare := range map[string]func(t *testing.T, dir string){
		"empty directory":   func(*testing.T, string) {},
		"missing directory": func(t *testing.T, dir string) { t.Helper(); _ = os.Remove(dir) },
		"unreadable directory": func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Chmod(dir, 0); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Chmod(dir, 0o700) }) //nolint:gosec // the test's own directory
		},
		"file, not a directory": func(t *testing.T, dir string) {
			t.Helper()
			_ = os.Remove(dir)
			if err := os.WriteFile(dir, []byte("not a directory"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"invalid lessons": func(t *testing.T, dir string) {
			t.Helper()
			for i, text := range []string{"", "---\n", "\x00\xff", "---\nslug: [\n---\n", strings.Repeat("---\n", 10_000)} {
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("l%d.md", i)), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, lessons := t.TempDir(), filepath.Join(t.TempDir(), "lessons")
			if err := os.Mkdir(lessons, 0o700); err != nil {
				t.Fatal(err)
			}
			prepare(t, lessons)
			p := harness.StartWithUpstream(t, dir, model.URL, "--lessons", lessons)
			const body = `{"messages" : [{"role":"user","content":"the build \u0066ails"}], "model":"m"}`
			if status, text := harness.Post(t, p.DataURL+"/v1/chat/completions", nil, body); status != http.StatusOK || *got.Load() != body {
				t.Errorf("chat request: got status %d, answer %s, want status 200; body that the upstream received: got %s, want %s", status, text, *got.Load(), body)
			}
			p.Stop()
		})
	}
}

func TestChaosRequestsSucceedAfterUpstreamOutage(t *testing.T) {
	model := harness.InstantModel(t)
	address := model.Listener.Addr().String()
	p := harness.StartWithUpstream(t, t.TempDir(), model.URL)
	ask := func() (int, string) {
		return harness.Post(t, p.DataURL+"/v1/chat/completions", nil, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`)
	}
	if status, text := ask(); status != http.StatusOK {
		t.Fatalf("request before the outage: got status %d, body %s, want 200", status, text)
	}
	model.Close()
	for range 3 {
		status, text := ask()
		var refusal struct {
			Error struct{ Type, Message string } `json:"error"`
		}
		if err := json.Unmarshal([]byte(text), &refusal); status != http.StatusBadGateway || err != nil || refusal.Error.Type != "precept_error" {
			t.Errorf("request during the outage: got status %d, body %s, want status 502 and a body with a precept_error", status, text)
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	restarted := &httptest.Server{Listener: listener, Config: &http.Server{Handler: model.Config.Handler, ReadHeaderTimeout: time.Minute}}
	restarted.Start()
	t.Cleanup(restarted.Close)
	if status, text := ask(); status != http.StatusOK {
		t.Errorf("request after the outage: got status %d, body %s, want 200", status, text)
	}
	p.Stop()
}
