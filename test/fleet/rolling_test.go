package fleet

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"precept/store/storetest"
	"precept/test/harness"
)

// balancer is a load balancer that polls /readyz and distributes the requests over the ready replicas.
type balancer struct {
	mu        sync.Mutex
	replicas  []string
	ready     []string
	nextIndex int
}

func (b *balancer) addReplica(baseURL string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.replicas = append(b.replicas, baseURL)
}

func (b *balancer) removeReplica(baseURL string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.replicas = slices.DeleteFunc(b.replicas, func(s string) bool { return s == baseURL })
}

func (b *balancer) poll(ctx context.Context, interval time.Duration) {
	c := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for ctx.Err() == nil {
		b.mu.Lock()
		all := slices.Clone(b.replicas)
		b.mu.Unlock()
		var ready []string
		for _, baseURL := range all {
			if res, err := c.Get(baseURL + "/readyz"); err == nil {
				_ = res.Body.Close()
				if res.StatusCode == http.StatusOK {
					ready = append(ready, baseURL)
				}
			}
		}
		b.mu.Lock()
		b.ready = ready
		b.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(interval):
		}
	}
}

func (b *balancer) nextReplica() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.ready) == 0 {
		return ""
	}
	b.nextIndex++
	return b.ready[b.nextIndex%len(b.ready)]
}

func (b *balancer) readyCount() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.ready)
}

// startModel starts a model that streams for half a second if the request asks for a stream.
func startModel(t *testing.T) *httptest.Server {
	t.Helper()
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		id := fmt.Sprint("chatcmpl-", n.Add(1))
		if !strings.Contains(string(b), `"stream":true`) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, harness.ChatReply(id, "this is the answer"))
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 10 {
			_, _ = fmt.Fprintf(w, "data: {\"id\":%q,\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word %d \"}}]}\n\n", id, i)
			_ = http.NewResponseController(w).Flush()
			time.Sleep(50 * time.Millisecond)
		}
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(s.Close)
	return s
}

// Each replica is stopped and replaced under load. A stopping replica answers 503 to /readyz, and still accepts
// connections for limits.drain_delay, so that the load balancer has time to notice.
func TestRollingRestartFailsNoRequest(t *testing.T) {
	t.Parallel()
	redis, model := storetest.StartRedis(t), startModel(t)
	const pollInterval = 100 * time.Millisecond
	flags := []string{"--store-url", redis.URL(), "--reward-close-after", "1s", "--limits-drain-delay", "2s"}
	dirs := []string{t.TempDir(), t.TempDir()}
	var fleet []*harness.Process
	b := &balancer{}
	for _, dir := range dirs {
		p := harness.StartWithUpstream(t, dir, model.URL, flags...)
		fleet = append(fleet, p)
		b.addReplica(p.DataURL)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var polling sync.WaitGroup
	polling.Go(func() { b.poll(ctx, pollInterval) })
	harness.Eventually(t, "two ready replicas", func() bool { return b.readyCount() == 2 })

	l := harness.NewLoad(t, 20*time.Millisecond)
	l.BaseURL, l.SeparateSessions = b.nextReplica, true
	l.IsStream = func(n int64) bool { return n%3 == 0 }
	loadCtx, stopLoad := context.WithCancel(ctx)
	wait := l.Start(loadCtx, "", 6)
	for i, dir := range dirs {
		before := l.CountAnswered()
		harness.Eventually(t, "20 more answered requests", func() bool { return l.CountAnswered() > before+20 })
		old := fleet[i]
		old.Signal(syscall.SIGTERM)
		if code := old.ExitCode(); code != harness.ExitOK {
			t.Errorf("replica %d: got exit code %d, want 0\n%s", i, code, old.Log.String())
		}
		b.removeReplica(old.DataURL)
		fleet[i] = harness.StartWithUpstream(t, dir, model.URL, flags...)
		b.addReplica(fleet[i].DataURL)
		harness.Eventually(t, "two ready replicas after the restart", func() bool { return b.readyCount() == 2 })
	}
	before := l.CountAnswered()
	harness.Eventually(t, "20 more answered requests", func() bool { return l.CountAnswered() > before+20 })
	stopLoad()
	wait()

	n := l.CountAnswered()
	samples := 0
	harness.Eventually(t, "a sample for each answered request", func() bool {
		out, _, _ := harness.RunCommand(t, "", "export", "--store-url", redis.URL(), "--data-dir", dirs[0])
		samples = strings.Count(out, "\n")
		return samples >= n
	})
	exchanges := harness.ExchangesInRedis(t, redis.URL())
	harness.CheckOneExchangePerRequest(t, "through a rolling restart", l.EndedBefore(time.Now()), exchanges)
	if samples != n || len(exchanges) != n || len(harness.RepeatedRequests(exchanges)) > 0 {
		t.Errorf("Redis: got %d exchanges and %d samples, want %d of each; requests with several exchanges: got %v, want none", len(exchanges), samples, n, harness.RepeatedRequests(exchanges))
	}
	var admitted int64
	for i, dir := range dirs {
		d := fleet[i].WaitUntilDrained(dir, flags[:2]...)
		admitted += d.Admitted
		if d.Unsampled != 0 || d.Incomplete != 0 {
			t.Errorf("doctor on replica %d reports %+v, want no unsampled or incomplete exchanges", i, d)
		}
		fleet[i].Stop()
	}
	if admitted != int64(n) {
		t.Errorf("exchanges admitted by all replicas: got %d, want %d, one per answered request", admitted, n)
	}
	stop()
	polling.Wait()
	t.Logf("%d answered", n)
}
