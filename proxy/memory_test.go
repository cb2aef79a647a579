package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
)

func TestCapturedRepliesAreBounded(t *testing.T) {
	const streams, events, total = 8, 300, 1 << 20
	next := make(chan struct{})
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range events {
			_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", strings.Repeat("word ", 100))
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-next:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	})
	f := newFixture(t, up, "", nil, map[string]string{"limits.capture_total_bytes": "1MiB"})
	type streamEnd struct {
		done bool // the stream ended with [DONE]
		err  error
	}
	ends := make(chan streamEnd, streams)
	began := make(chan struct{}, streams)
	for i := range streams {
		go func() {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+chatPath, strings.NewReader(`{"stream":true,"messages":[{"role":"user","content":"hi"}]}`))
			req.Header.Set("Precept-Session", fmt.Sprint("s", i))
			res, err := client(t).Do(req)
			if err != nil {
				ends <- streamEnd{err: err}
				return
			}
			defer func() { _ = res.Body.Close() }()
			br := bufio.NewReader(res.Body)
			for range 2 * events {
				_, _ = br.ReadString('\n')
			}
			began <- struct{}{}
			rest, err := io.ReadAll(br)
			ends <- streamEnd{strings.HasSuffix(string(rest), "[DONE]\n\n"), err}
		}()
	}
	for range streams {
		<-began
	}
	if n := f.copyBytes(); n > total {
		t.Errorf("captured bytes = %d, want at most %d", n, total)
	} else if n == 0 {
		t.Error("captured bytes = 0, want at least 1")
	}
	close(next)
	for range streams {
		if end := <-ends; end.err != nil {
			t.Error(end.err)
		} else if !end.done {
			t.Error("the stream ended without [DONE]")
		}
	}
	eventually(t, func() bool { return f.Options().Tally.Exchanges.Load() == streams })
	if n := f.Options().Tally.CopiesCut.Load(); n == 0 {
		t.Error("CopiesCut = 0, want at least 1")
	} else if n == streams {
		t.Errorf("CopiesCut = %d, want less than %d", n, streams)
	} else if f.Options().Tally.Incomplete.Load() != 0 {
		t.Errorf("Incomplete = %d, want 0", f.Options().Tally.Incomplete.Load())
	}
	if n := f.copyBytes(); n != 0 {
		t.Errorf("captured copies have %d bytes after all streams, want 0", n)
	}
}

func TestRequestBodyIsReleasedWhenResponseBegins(t *testing.T) {
	next := make(chan struct{})
	up := &upstream{Server: httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {}\n\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-next:
		case <-r.Context().Done():
		}
	}))}
	t.Cleanup(up.Close)
	f := newFixture(t, up, "", newBook(t, "one: alpha"), injectAll())
	const streams, size = 16, 4 << 20
	body := `{"stream":true,"messages":[{"role":"user","content":"alpha"}],"metadata":{"x":"` + strings.Repeat("x", size) + `"}}`
	heap := func() uint64 {
		for range 3 {
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	var open []io.Closer
	for i := range streams {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+chatPath, io.NopCloser(strings.NewReader(body)))
		req.ContentLength = int64(len(body))
		req.Header.Set("Precept-Session", fmt.Sprint("s", i))
		res, err := client(t).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = res.Body.Read(make([]byte, 100))
		open = append(open, res.Body)
	}
	defer func() {
		close(next)
		for _, c := range open {
			_ = c.Close()
		}
	}()
	eventually(t, func() bool { // the last body may be released after the client got the first bytes
		grown := int64(heap()) - int64(before)
		return grown < streams*size/4
	})
}
