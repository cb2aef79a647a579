package chaos

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"precept/test/harness"
)

func openIdleConnections(t *testing.T, p *harness.Process, n int) {
	t.Helper()
	for i := range n {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(p.DataURL, "http://"))
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
}

// Clients open three times as many idle connections as the server may have open files. The server must still answer.
func TestChaosServesBeyondTheFileLimit(t *testing.T) {
	const files = 256
	model, finish := harness.SlowModel(t)
	dir := t.TempDir()
	limited := []string{"sh", "-c", `ulimit -n "$0" && exec precept "$@"`, strconv.Itoa(files)}
	p := harness.LaunchWith(t, limited, dir, []string{"PRECEPT_ADMIN_TOKEN=token"}, "--upstream", model.URL+"/v1", "--limits-header-timeout", "10m").WaitUntilReady(dir)
	ended := []<-chan error{harness.Stream(t, p.DataURL)}
	openIdleConnections(t, p, 3*files)
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.DataURL, "http://")) //nolint:noctx // a plain test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	const request = `{"stream":true,"messages":[{"role":"user","content":"go"}]}`
	_, _ = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(request), request)
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, " 200 ") {
		t.Fatalf("response while there are more connections than allowed files: got first line %q, error %v, want status 200", line, err)
	}
	for range 20 {
		ended = append(ended, harness.Stream(t, p.DataURL))
	}
	if status, _ := harness.Get(t, p.AdminURL+"/healthz", ""); status != http.StatusOK {
		t.Errorf("admin listener's /healthz: got status %d, want 200", status)
	}
	close(finish)
	for _, c := range ended {
		if err := <-c; err != nil {
			t.Errorf("stream: got error %v, want a complete stream", err)
		}
	}
	p.Eventually("every answered exchange in the store", func() bool { return harness.Doctor(t, dir).Stored == int64(len(ended))+1 })
	p.Stop()
}

// durations collects the durations of the answered requests.
type durations struct {
	mu   sync.Mutex
	list []time.Duration
}

func (ds *durations) add(d time.Duration) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	ds.list = append(ds.list, d)
}

func (ds *durations) p99() time.Duration {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	slices.Sort(ds.list)
	return ds.list[(len(ds.list)-1)*99/100]
}

func sendTimed(t *testing.T, client *http.Client, baseURL, text string) (code int, header http.Header, elapsed time.Duration) {
	t.Helper()
	body := fmt.Sprintf(`{"messages":[{"role":"user","content":"%s %s"}]}`, text, strings.Repeat("x", 32<<10))
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, baseURL+"/v1/chat/completions", strings.NewReader(body))
	started := time.Now()
	res, err := client.Do(req)
	if err != nil {
		t.Error(err)
		return 0, nil, 0
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.StatusCode, res.Header, time.Since(started)
}

// The server handles at most 20 requests at the same time (limits.requests), and 200 clients (the crowd) send requests.
// If PRECEPT_CHAOS is set, the test also checks that the 99th percentile of the durations is at most twice as long as
// without the crowd.
func TestChaosCrowdIsServedOrRefused(t *testing.T) {
	const limit = 20
	var concurrent, peak atomic.Int64 // requests at the model
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := concurrent.Add(1)
		defer concurrent.Add(-1)
		for old := peak.Load(); n > old && !peak.CompareAndSwap(old, n); old = peak.Load() { // peak = max(peak, n)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(50 * time.Millisecond) // the model's response time
		_, _ = io.WriteString(w, harness.ChatReply("c", "fine"))
	}))
	t.Cleanup(model.Close)
	dir := t.TempDir()
	p := harness.StartWithUpstream(t, dir, model.URL, "--limits-requests", strconv.Itoa(limit))
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 10 * limit}}
	t.Cleanup(client.CloseIdleConnections)
	var answered, refused atomic.Int64
	runClients := func(count int, duration time.Duration) *durations {
		ctx, stop := context.WithTimeout(t.Context(), duration)
		defer stop()
		answers, clients := &durations{}, sync.WaitGroup{}
		for n := range count {
			clients.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					switch code, header, d := sendTimed(t, client, p.DataURL, fmt.Sprintf("request %d from client %d", i, n)); {
					case code == http.StatusOK:
						answered.Add(1)
						answers.add(d)
					case code == http.StatusServiceUnavailable && header.Get("Retry-After") == "1":
						refused.Add(1)
						time.Sleep(50 * time.Millisecond) // clients ignore Retry-After
					default:
						t.Errorf("request from the crowd: got status %d, header %v, want status 200, or status 503 with Retry-After: 1", code, header)
						return
					}
				}
			})
		}
		clients.Wait()
		return answers
	}
	before := runClients(limit, harness.UsualOrChaos[time.Duration](200, 5000)*time.Millisecond)
	during := runClients(10*limit, harness.UsualOrChaos[time.Duration](2, 20)*time.Second)
	after := runClients(limit, harness.UsualOrChaos[time.Duration](200, 2000)*time.Millisecond)
	t.Logf("p99: %v before the crowd, %v in the crowd, %v after it", before.p99(), during.p99(), after.p99())
	if harness.UsualOrChaos(false, true) && (during.p99() > 2*before.p99() || after.p99() > 2*before.p99()) {
		t.Errorf("99th percentile of the durations: got %v during the crowd and %v after the crowd, want at most twice the %v before the crowd", during.p99(), after.p99(), before.p99())
	}
	if answered.Load() < limit || refused.Load() < limit || peak.Load() > limit {
		t.Errorf("requests from the crowd: got %d answered, %d refused, %d concurrent; want at least %d answered, at least %d refused, at most %d concurrent", answered.Load(), refused.Load(), peak.Load(), limit, limit, limit)
	}
	if n := residentMemory(t, p); n > maxResident {
		t.Errorf("server memory: got %d MiB, want at most %d", n>>20, maxResident>>20)
	}
	l := harness.NewLoad(t, 0)
	for range 2 * limit {
		l.Send(t.Context(), p.DataURL)
	}
	l.CountAnswered()
	n := answered.Load() + 2*limit
	p.Eventually("every answered exchange in the store", func() bool { return harness.Doctor(t, dir).Stored == n })
	p.Stop()
	t.Logf("%d answered, %d refused", answered.Load(), refused.Load())
}

// Each client sends a request for a stream and never reads the reply. The server must end these connections.
func TestChaosStalledReadersAreDisconnected(t *testing.T) {
	clients := harness.UsualOrChaos(200, 1000)
	const replyBytes = 200 << 20
	var begun, ended, completed atomic.Int64
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		event := []byte(`data: {"choices":[{"index":0,"delta":{"content":"` + strings.Repeat("word ", 800) + `"}}]}` + "\n\n")
		begun.Add(1)
		defer ended.Add(1)
		for sent := 0; sent < replyBytes; sent += len(event) {
			if _, err := w.Write(event); err != nil {
				return
			}
		}
		completed.Add(1)
	}))
	t.Cleanup(model.Close)
	dir := t.TempDir()
	p := harness.StartWithUpstream(t, dir, model.URL, "--limits-client-write-timeout", harness.UsualOrChaos("8s", "20s"))
	const request = `{"stream":true,"messages":[{"role":"user","content":"go"}]}`
	for range clients {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(p.DataURL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(request), request)
	}
	peak := int64(0)
	p.Eventually("all upstream streams to end", func() bool {
		peak = max(peak, residentMemory(t, p))
		return ended.Load() == int64(clients) && begun.Load() == int64(clients)
	})
	if completed.Load() > 0 || peak > maxResident {
		t.Errorf("streams that the server sent completely: got %d of %d, want 0; memory of the server: got %d MiB, want at most %d", completed.Load(), clients, peak>>20, maxResident>>20)
	}
	p.Stop()
	t.Logf("the server used at most %d MiB", peak>>20)
}
