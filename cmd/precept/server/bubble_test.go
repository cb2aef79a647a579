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

// port is a listener in memory. A network listener would stop the synctest bubble's clock while a goroutine waits for
// the network.
type port struct {
	address net.TCPAddr
	dialed  chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func (p *port) Accept() (net.Conn, error) {
	select {
	case c := <-p.dialed:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *port) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *port) Addr() net.Addr { return &p.address }

// ports holds a server's listeners in memory, by address.
type ports map[string]*port

func (p ports) listen(_ context.Context, _, _ string) (net.Listener, error) {
	newPort := &port{
		address: net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1 + len(p)},
		dialed:  make(chan net.Conn), closed: make(chan struct{}),
	}
	p[newPort.address.String()] = newPort
	return newPort, nil
}

func (p ports) dial(_ context.Context, _, address string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p[address].dialed <- far:
		return near, nil
	case <-p[address].closed:
		return nil, net.ErrClosed
	}
}

// bubbleServer is a server in a synctest bubble. The fake clock moves to the next timer as soon as all goroutines wait.
type bubbleServer struct {
	*runningServer
	ports ports
}

func inBubble(t *testing.T, options map[string]string, test func(*bubbleServer)) {
	t.Helper()
	source := flagSource(t, injectAll(options))
	synctest.Test(t, func(t *testing.T) {
		b := &bubbleServer{ports: ports{}}
		b.runningServer = startServer(t, source, func(o *server.Options) { o.Listen, o.PollOnly = b.ports.listen, true })
		test(b)
		if err := b.stopAndWait(); err != nil {
			t.Error(err)
		}
	})
}

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
	res, err := (&http.Transport{DialContext: b.ports.dial, DisableKeepAlives: true}).RoundTrip(req)
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

func TestIdleServerReturnsMemoryEveryMinute(t *testing.T) {
	forced := func() uint32 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NumForcedGC
	}
	inBubble(t, nil, func(b *bubbleServer) {
		before := forced()
		time.Sleep(3*time.Minute + time.Second)
		synctest.Wait()
		if n := forced() - before; n != 3 {
			b.t.Errorf("got %d forced collections in three minutes, want 3", n)
		}
		if status, _ := b.send(http.MethodGet, b.dataURL+"/readyz", ""); status != http.StatusOK {
			b.t.Errorf("/readyz: got status %d, want 200", status)
		}
	})
}
