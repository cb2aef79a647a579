package server_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"precept/cmd/precept/server"
)

// memoryListener is a listener that accepts connections in memory. If a goroutine waited for a network connection, the
// clock of the synctest bubble would stop.
type memoryListener struct {
	address net.TCPAddr
	dialed  chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.dialed:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *memoryListener) Addr() net.Addr { return &l.address }

// memoryNetwork holds the listeners of a server, by address.
type memoryNetwork map[string]*memoryListener

func (n memoryNetwork) listen(_ context.Context, _, _ string) (net.Listener, error) {
	l := &memoryListener{
		address: net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1 + len(n)},
		dialed:  make(chan net.Conn), closed: make(chan struct{}),
	}
	n[l.address.String()] = l
	return l, nil
}

func (n memoryNetwork) dial(_ context.Context, _, address string) (net.Conn, error) {
	client, accepted := net.Pipe()
	select {
	case n[address].dialed <- accepted:
		return client, nil
	case <-n[address].closed:
		return nil, net.ErrClosed
	}
}

// bubbleServer is a server in a synctest bubble. When all goroutines of the bubble wait, the bubble's clock jumps to
// the next timer.
type bubbleServer struct {
	*runningServer
	network memoryNetwork
}

// startBubbleServer starts a server in the current synctest bubble.
func startBubbleServer(t *testing.T, source *server.Source, change ...func(*server.Options)) *bubbleServer {
	t.Helper()
	network := memoryNetwork{}
	change = append(change, func(o *server.Options) { o.Listen, o.DisableFileEvents = network.listen, true })
	return &bubbleServer{startServer(t, source, change...), network}
}

// runInBubble starts a server in a new synctest bubble, calls test with it, and stops the server.
func runInBubble(t *testing.T, options map[string]string, test func(*bubbleServer)) {
	t.Helper()
	source := newFlagSource(t, injectAllOptions(options))
	synctest.Test(t, func(t *testing.T) {
		b := startBubbleServer(t, source)
		test(b)
		if err := b.stopAndWait(); err != nil {
			t.Error(err)
		}
	})
}

// send sends a request with the administrator's token. header alternates between names and values.
func (b *bubbleServer) send(method, url, body string, header ...string) (status int, answer string) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer token")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := (&http.Transport{DialContext: b.network.dial, DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func TestIdleServerCollectsGarbageEveryMinute(t *testing.T) {
	forcedCollections := func() uint32 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NumForcedGC
	}
	runInBubble(t, nil, func(b *bubbleServer) {
		before := forcedCollections()
		time.Sleep(3*time.Minute + time.Second)
		synctest.Wait()
		if n := forcedCollections() - before; n != 3 {
			b.t.Errorf("idle server: got %d forced garbage collections in three minutes, want 3", n)
		}
		if status, _ := b.send(http.MethodGet, b.dataURL+"/readyz", ""); status != http.StatusOK {
			b.t.Errorf("/readyz: got status %d, want 200", status)
		}
	})
}
