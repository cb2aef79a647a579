package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// dialed opens connections to a process that say nothing, until the test ends.
func (p *process) dialed(n int) {
	p.t.Helper()
	for i := range n {
		c, err := (&net.Dialer{}).DialContext(p.t.Context(), "tcp", strings.TrimPrefix(p.Data, "http://"))
		if err != nil {
			p.t.Fatalf("connection %d: %v", i, err)
		}
		p.t.Cleanup(func() { _ = c.Close() })
	}
}

// R129: connections that say nothing are more than the files that a process may have. Streams that
// are under way go on, new requests are served, and each has its upstream.
func TestChaosFiles(t *testing.T) {
	const files = 256
	model, finish := slowModel(t)
	dir := t.TempDir()
	limited := []string{"sh", "-c", `ulimit -n "$0" && exec precept "$@"`, strconv.Itoa(files)}
	p := launchBy(t, limited, dir, []string{"PRECEPT_ADMIN_TOKEN=token"}, "--upstream", model.URL+"/v1", "--limits-header-timeout", "10m").ready(dir)
	ended := []<-chan error{stream(t, p.Data)}
	p.dialed(3 * files)
	kept, err := net.Dial("tcp", strings.TrimPrefix(p.Data, "http://")) //nolint:noctx // a plain test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kept.Close() })
	const request = `{"stream":true,"messages":[{"role":"user","content":"go"}]}`
	_, _ = fmt.Fprintf(kept, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(request), request)
	_ = kept.SetReadDeadline(time.Now().Add(time.Minute))
	if line, err := bufio.NewReader(kept).ReadString('\n'); err != nil || !strings.Contains(line, " 200 ") {
		t.Fatalf("%q, %v", line, err)
	}
	for range 20 {
		ended = append(ended, stream(t, p.Data))
	}
	if status, _ := get(t, p.Admin+"/healthz", ""); status != http.StatusOK {
		t.Errorf("the admin listener: %d", status)
	}
	close(finish)
	for _, c := range ended {
		if err := <-c; err != nil {
			t.Errorf("a stream was cut: %v", err)
		}
	}
	p.eventually("all in the store", func() bool { return doctor(t, dir).Stored == int64(len(ended))+1 })
	p.stops()
}

// R131: ten times as many requests as may be under way. Who is let in has an answer, who is not has
// a 503 with the time to come back, and all is well when the crowd has gone.
func TestChaosCrowd(t *testing.T) {
	const most = 20
	var under, peak atomic.Int64
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := under.Add(1)
		defer under.Add(-1)
		for old := peak.Load(); n > old && !peak.CompareAndSwap(old, n); old = peak.Load() {
		}
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(50 * time.Millisecond) // the model thinks
		_, _ = io.WriteString(w, said("c", "fine"))
	}))
	t.Cleanup(model.Close)
	dir := t.TempDir()
	p := begins(t, dir, model.URL, "--limits-requests", strconv.Itoa(most))
	ctx, stop := context.WithTimeout(t.Context(), longer[time.Duration](2, 20)*time.Second)
	defer stop()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 10 * most}}
	t.Cleanup(client.CloseIdleConnections)
	var answered, refused atomic.Int64
	var all sync.WaitGroup
	for worker := range 10 * most {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				body := fmt.Sprintf(`{"messages":[{"role":"user","content":"%d of %d %s"}]}`, i, worker, strings.Repeat("x", 32<<10))
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, p.Data+"/v1/chat/completions", strings.NewReader(body))
				res, err := client.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				switch {
				case res.StatusCode == http.StatusOK:
					answered.Add(1)
				case res.StatusCode == http.StatusServiceUnavailable && res.Header.Get("Retry-After") == "1":
					refused.Add(1)
					time.Sleep(50 * time.Millisecond) // none waits the second that it is told to
				default:
					t.Errorf("%d %v", res.StatusCode, res.Header)
				}
			}
		})
	}
	all.Wait()
	if answered.Load() < most || refused.Load() < most || peak.Load() > most {
		t.Errorf("%d answered, %d refused, %d at once", answered.Load(), refused.Load(), peak.Load())
	}
	if n := p.resident(); n > mostResident {
		t.Errorf("%d MiB", n>>20)
	}
	l := newLoad(t, 0)
	for range 2 * most {
		l.one(t.Context(), p.Data)
	}
	l.all()
	n := answered.Load() + 2*most
	p.eventually("all in the store", func() bool { return doctor(t, dir).Stored == n })
	p.stops()
	t.Logf("%d answered, %d refused", answered.Load(), refused.Load())
}

// R133: clients stop reading long streams. Their upstreams wait, memory stays, and after
// limits.client_write_timeout they are gone.
func TestChaosStalledReaders(t *testing.T) {
	clients := longer(200, 1000)
	const size = 200 << 20
	var begun, ended, whole atomic.Int64
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		event := []byte(`data: {"choices":[{"index":0,"delta":{"content":"` + strings.Repeat("word ", 800) + `"}}]}` + "\n\n")
		begun.Add(1)
		defer ended.Add(1)
		for sent := 0; sent < size; sent += len(event) {
			if _, err := w.Write(event); err != nil {
				return
			}
		}
		whole.Add(1)
	}))
	t.Cleanup(model.Close)
	dir := t.TempDir()
	p := begins(t, dir, model.URL, "--limits-client-write-timeout", longer("8s", "20s"))
	const request = `{"stream":true,"messages":[{"role":"user","content":"go"}]}`
	for range clients {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(p.Data, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(request), request)
	}
	peak := int64(0)
	p.eventually("the end of all of them", func() bool {
		peak = max(peak, p.resident())
		return ended.Load() == int64(clients) && begun.Load() == int64(clients)
	})
	if whole.Load() > 0 || peak > mostResident {
		t.Errorf("%d of %d were read to the end; %d MiB at most", whole.Load(), clients, peak>>20)
	}
	p.stops()
	t.Logf("%d MiB at most", peak>>20)
}
