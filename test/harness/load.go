package harness

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// UsualOrChaos returns chaosValue under `make chaos` (PRECEPT_CHAOS=1), and usualValue otherwise.
func UsualOrChaos[T any](usualValue, chaosValue T) T {
	if os.Getenv("PRECEPT_CHAOS") != "" {
		return chaosValue
	}
	return usualValue
}

// DurableAfter returns how long after the end of the response a crash can still lose the exchange. The time is shorter
// under `make chaos`, because no other test packages run at the same time.
func DurableAfter() time.Duration { return UsualOrChaos(1500*time.Millisecond, 100*time.Millisecond) }

// answeredRequest is a request that got a response with status 200.
type answeredRequest struct {
	request string    // Precept-Request-Id
	ended   time.Time // when the client received the end of the response
}

// Load sends requests to precept until the context passed to Start ends. It records the responses.
type Load struct {
	t                *testing.T
	pause            time.Duration
	Client           *http.Client
	BaseURL          func() string      // returns the base URL for the next request; nil means the base URL passed to Start
	IsStream         func(n int64) bool // reports whether request n asks for a stream; nil means that none does
	SeparateSessions bool               // each request begins a new session
	Started          atomic.Int64
	Mu               sync.Mutex
	Answers          []answeredRequest
	failures         []string
}

// NewLoad returns a Load whose workers sleep for the duration pause after each request.
func NewLoad(t *testing.T, pause time.Duration) *Load {
	t.Helper()
	l := &Load{t: t, pause: pause, Client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	t.Cleanup(l.Client.CloseIdleConnections)
	return l
}

// Start starts workers that send requests until the context ends. The function wait returns when all workers have
// stopped.
func (l *Load) Start(ctx context.Context, baseURL string, workers int) (wait func()) {
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for ctx.Err() == nil {
				l.Send(ctx, baseURL)
				select {
				case <-ctx.Done():
				case <-time.After(l.pause):
				}
			}
		})
	}
	return all.Wait
}

// WaitForRequests waits until n more requests have started.
func (l *Load) WaitForRequests(n int64) {
	l.t.Helper()
	until := l.Started.Load() + n
	Eventually(l.t, fmt.Sprint(n, " more requests"), func() bool { return l.Started.Load() >= until })
}

// Send sends one request. If the request fails after ctx has ended, the failure is not counted.
func (l *Load) Send(ctx context.Context, baseURL string) {
	n := l.Started.Add(1)
	if l.BaseURL != nil {
		baseURL = l.BaseURL()
	}
	stream := ""
	if l.IsStream != nil && l.IsStream(n) {
		stream = `"stream":true,`
	}
	body := fmt.Sprintf(`{`+stream+`"model":"m","messages":[{"role":"user","content":"question %d %s"}]}`, n, strings.Repeat("and so on ", 50))
	req, err := http.NewRequestWithContext(l.t.Context(), http.MethodPost, baseURL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		l.t.Error(err)
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Precept-Session", "s"+strconv.FormatInt(n%20, 10)+"-"+strconv.FormatInt(n/200, 10)) // 20 sessions at a time, with 10 requests each
	if l.SeparateSessions {
		req.Header.Set("Precept-Session", "s"+strconv.FormatInt(n, 10))
	}
	res, err := l.Client.Do(req)
	var answer []byte
	if err == nil {
		answer, err = io.ReadAll(res.Body)
		_ = res.Body.Close()
	}
	now := time.Now()
	l.Mu.Lock()
	defer l.Mu.Unlock()
	switch {
	case err == nil && res.StatusCode == http.StatusOK:
		l.Answers = append(l.Answers, answeredRequest{res.Header.Get("Precept-Request-Id"), now})
	case ctx.Err() != nil:
	case err != nil:
		l.failures = append(l.failures, err.Error())
	default:
		l.failures = append(l.failures, res.Status+": "+string(answer))
	}
}

// EndedBefore returns the ids of the requests whose complete response arrived before the time limit.
func (l *Load) EndedBefore(limit time.Time) (requests []string) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	for _, a := range l.Answers {
		if a.ended.Before(limit) {
			requests = append(requests, a.request)
		}
	}
	return requests
}

// CountAnswered returns the number of requests with status 200, and fails the test if a request failed.
func (l *Load) CountAnswered() int {
	l.t.Helper()
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if len(l.failures) > 0 {
		l.t.Errorf("%d of %d requests failed: %v", len(l.failures), len(l.failures)+len(l.Answers), l.failures[:min(3, len(l.failures))])
	}
	return len(l.Answers)
}

// InstantModel starts a server that answers every chat request without a delay.
func InstantModel(t *testing.T) *httptest.Server {
	t.Helper()
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, ChatReply(fmt.Sprint("chatcmpl-", n.Add(1)), "this is the answer"))
	}))
	t.Cleanup(s.Close)
	return s
}
