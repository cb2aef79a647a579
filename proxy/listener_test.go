package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// To accept a connection above the limit, the listener closes the longest idle connection. The oldest connection stays
// open, because a request is in progress on this connection.
func TestFullListenerClosesLongestIdleConnection(t *testing.T) {
	finish := make(chan struct{})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			_ = http.NewResponseController(w).Flush()
			<-finish
		}
		_, _ = io.WriteString(w, "end")
	}))
	listener := newLimitListener(srv.Listener, time.Now, 4 /* connections */, 0 /* minimum idle time */)
	srv.Listener, srv.Config.ConnState = listener, listener.TrackState
	srv.Start()
	t.Cleanup(srv.Close)
	dial := func(request, headers string) (net.Conn, *bufio.Reader) {
		c, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		r := bufio.NewReader(c)
		if request == "" {
			return c, r
		}
		_, _ = io.WriteString(c, "GET "+request+" HTTP/1.1\r\nHost: x\r\n"+headers+"\r\n")
		if line, err := r.ReadString('\n'); err != nil {
			t.Fatalf("%s: error = %v", request, err)
		} else if !strings.HasPrefix(line, "HTTP/1.1 200") {
			t.Fatalf(`%s: got %q, want prefix "HTTP/1.1 200"`, request, line)
		}
		return c, r
	}
	_, busy := dial("/wait", "Connection: close\r\n")
	_, first := dial("", "") // sends no request
	eventually(t, func() bool { return idleConnections(listener) == 1 })
	_, second := dial("/once", "")
	eventually(t, func() bool { return idleConnections(listener) == 2 })
	dial("/once", "")
	eventually(t, func() bool { return idleConnections(listener) == 3 })
	dial("/once", "") // the fifth connection, one above the limit
	if b, err := first.ReadByte(); err == nil {
		t.Errorf("longest idle connection: read %q, want a closed connection", b)
	}
	dial("/once", "")
	if _, err := io.ReadAll(second); err != nil {
		t.Errorf("second longest idle connection: read error %v, want a closed connection", err)
	}
	close(finish)
	if b, err := io.ReadAll(busy); err != nil {
		t.Error(err)
	} else if !strings.Contains(string(b), "end") {
		t.Errorf(`connection with a request: body = %q, want substring "end"`, string(b))
	}
	eventually(t, func() bool { return len(listener.slots) == 3 })
}

func idleConnections(l *LimitListener) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.idle.Len()
}

// When a request ends, the listener closes the connection to accept the next client, although the client keeps the
// connection open.
func TestFullListenerAcceptsWhenRequestEnds(t *testing.T) {
	finish := make(chan struct{})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		if r.URL.Path == "/wait" {
			<-finish
		}
		_, _ = io.WriteString(w, "end")
	}))
	listener := newLimitListener(srv.Listener, time.Now, 2 /* connections */, 10*time.Millisecond)
	srv.Listener, srv.Config.ConnState = listener, listener.TrackState
	srv.Start()
	t.Cleanup(srv.Close)
	sendRaw := func(request string) *bufio.Reader {
		c, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = io.WriteString(c, "GET "+request+" HTTP/1.1\r\nHost: x\r\n\r\n")
		return bufio.NewReader(c)
	}
	checkStatus := func(r *bufio.Reader) {
		t.Helper()
		if line, err := r.ReadString('\n'); err != nil {
			t.Fatal(err)
		} else if !strings.HasPrefix(line, "HTTP/1.1 200") {
			t.Fatalf(`status line = %q, want prefix "HTTP/1.1 200"`, line)
		}
	}
	one, two := sendRaw("/wait"), sendRaw("/wait")
	checkStatus(one)
	checkStatus(two)
	third := sendRaw("/once")
	close(finish)
	checkStatus(third)
	if n := len(listener.slots); n != 2 {
		t.Errorf("open connections = %d, want 2", n)
	}
}

func TestFullListenerLosesNoRequest(t *testing.T) {
	srv := httptest.NewUnstartedServer(nil)
	listener := newLimitListener(srv.Listener, time.Now, 8 /* connections */, minIdleTime)
	srv.Config.Handler = listener.CloseWhenFull(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "end")
	}))
	srv.Listener, srv.Config.ConnState = listener, listener.TrackState
	srv.Start()
	t.Cleanup(srv.Close)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 24}}
	t.Cleanup(client.CloseIdleConnections)
	var all sync.WaitGroup
	var failed atomic.Int64
	for range 24 {
		all.Go(func() {
			for range 20 {
				res, err := client.Post(srv.URL, "text/plain", strings.NewReader("hello")) //nolint:noctx // a plain test
				if err != nil {
					failed.Add(1)
					t.Log(err)
					continue
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
		})
	}
	all.Wait()
	if n := failed.Load(); n > 0 {
		t.Errorf("%d of 480 requests failed, want 0", n)
	}
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("condition not met within a minute")
		}
	}
}
