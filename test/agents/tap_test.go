package agents

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"precept/test/harness"
)

// tapHeader is the header in which the tap numbers the agent's requests. With the number, the checks find the agent's
// request that belongs to a request at the model.
const tapHeader = "X-Tap"

// tap is a proxy between the agent and precept, or in a direct run between the agent and the model.
type tap struct {
	*httptest.Server
	name   string // tells apart the taps of agents that share a model
	mu     sync.Mutex
	target *url.URL
	sent   []sentRequest
}

type sentRequest struct {
	method, path string
	body         []byte
	status       int
	session      string // Precept-Session response header
}

// newTap starts a tap that numbers and records the requests to target, and the responses.
func newTap(t *testing.T, target string) *tap {
	t.Helper()
	tp := &tap{name: harness.RandomHex(4)}
	tp.redirect(t, target)
	proxy := &httputil.ReverseProxy{
		Transport:     &http.Transport{DisableCompression: true},
		FlushInterval: -1,
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(tp.currentTarget()) },
		ModifyResponse: func(res *http.Response) error {
			tp.recordResponse(res)
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
		r.Header.Set(tapHeader, tp.name+" "+strconv.Itoa(tp.record(r, body)))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(tp.Close)
	return tp
}

func (tp *tap) redirect(t *testing.T, target string) {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	tp.mu.Lock()
	defer tp.mu.Unlock()
	tp.target = to
}

func (tp *tap) currentTarget() *url.URL {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	return tp.target
}

func (tp *tap) record(r *http.Request, body []byte) int {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	tp.sent = append(tp.sent, sentRequest{method: r.Method, path: r.URL.Path, body: body})
	return len(tp.sent) - 1
}

// requestNumber returns the number in tapHeader, and whether the request came through this tap.
func (tp *tap) requestNumber(h http.Header) (int, bool) {
	name, text, _ := strings.Cut(h.Get(tapHeader), " ")
	n, err := strconv.Atoi(text)
	return n, err == nil && name == tp.name
}

func (tp *tap) recordResponse(res *http.Response) {
	if n, ok := tp.requestNumber(res.Request.Header); ok {
		tp.mu.Lock()
		defer tp.mu.Unlock()
		tp.sent[n].status, tp.sent[n].session = res.StatusCode, res.Header.Get("Precept-Session")
	}
}

func (tp *tap) agentRequest(a *harness.ModelRequest) sentRequest {
	n, ok := tp.requestNumber(a.Header)
	if !ok {
		return sentRequest{}
	}
	tp.mu.Lock()
	defer tp.mu.Unlock()
	return tp.sent[n]
}

func (tp *tap) countAnswers(method string, status int) (n int) {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	for i := range tp.sent {
		if tp.sent[i].method == method && tp.sent[i].status == status {
			n++
		}
	}
	return n
}
