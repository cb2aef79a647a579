package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"testing"
)

// tapHeader numbers a request on its way, so that what reached the model can be held against what the agent sent.
const tapHeader = "X-Tap"

// tap stands before precept (or, in a direct run, before the model) and keeps what the agent sent and who precept took it for.
type tap struct {
	*httptest.Server
	mu   sync.Mutex
	sent []sent
}

// sent is one request as it left the agent.
type sent struct {
	method, path string
	body         []byte
	status       int
	session      string // what precept answered in Precept-Session
}

func newTap(t *testing.T, target string) *tap {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	tp := &tap{}
	proxy := &httputil.ReverseProxy{
		Transport:     &http.Transport{DisableCompression: true},
		FlushInterval: -1,
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ModifyResponse: func(res *http.Response) error {
			tp.answered(res)
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { panic(http.ErrAbortHandler) },
	}
	tp.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.Header.Set(tapHeader, strconv.Itoa(tp.note(r, body)))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(tp.Close)
	return tp
}

func (tp *tap) note(r *http.Request, body []byte) int {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	tp.sent = append(tp.sent, sent{method: r.Method, path: r.URL.Path, body: body})
	return len(tp.sent) - 1
}

func (tp *tap) answered(res *http.Response) {
	n, err := strconv.Atoi(res.Request.Header.Get(tapHeader))
	if err != nil {
		return
	}
	tp.mu.Lock()
	defer tp.mu.Unlock()
	tp.sent[n].status, tp.sent[n].session = res.StatusCode, res.Header.Get("Precept-Session")
}

// of is the request of the agent that became a request at the model.
func (tp *tap) of(a *asked) sent {
	n, err := strconv.Atoi(a.header.Get(tapHeader))
	if err != nil {
		return sent{}
	}
	tp.mu.Lock()
	defer tp.mu.Unlock()
	return tp.sent[n]
}

// upgrades counts the websocket attempts and how they were answered.
func (tp *tap) count(status int) (n int) {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	for i := range tp.sent {
		if tp.sent[i].status == status {
			n++
		}
	}
	return n
}
