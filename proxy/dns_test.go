package proxy_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
)

// nameServer is a DNS server. It answers NXDOMAIN if address is nil.
type nameServer struct{ address atomic.Pointer[netip.Addr] }

func (s *nameServer) serve(c net.PacketConn) {
	b := make([]byte, 1500)
	for {
		n, from, err := c.ReadFrom(b)
		if err != nil {
			return
		}
		end := 12 // the question after the header: labels, type, class
		for end < n && b[end] != 0 {
			end += 1 + int(b[end])
		}
		end += 5
		if end > n {
			continue
		}
		out := append([]byte(nil), b[:end]...)
		out[2], out[3] = 0x81, 0x80                                       // a response with recursion available
		copy(out[4:], []byte{0, 1, 0, 0, 0, 0, 0, 0})                     // one question, no answer
		a, wanted := s.address.Load(), binary.BigEndian.Uint16(b[end-4:]) // A is 1
		switch {
		case a == nil:
			out[3] |= 3 // NXDOMAIN
		case wanted == 1:
			out[7] = 1
			out = append(out, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4) // the name above, A, IN, for 0 seconds
			out = append(out, a.AsSlice()...)
		}
		_, _ = c.WriteTo(out, from)
	}
}

// While the upstream's host name has no reachable address, the proxy responds with 502.
func TestUpstreamAddressChangeNeedsNoReload(t *testing.T) {
	names := &nameServer{}
	c, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { names.serve(c); close(done) }()
	old := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", c.LocalAddr().String())
	}}
	t.Cleanup(func() { net.DefaultResolver = old; _ = c.Close(); <-done })
	port := "0"
	serverAt := func(host string) (*httptest.Server, netip.Addr) {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(host, port))
		if err != nil {
			t.Skip("only one loopback address: ", err)
		}
		_, port, _ = net.SplitHostPort(l.Addr().String())
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}]}`, host)
		}))
		_ = s.Listener.Close()
		s.Listener = l
		s.Start()
		t.Cleanup(s.Close)
		return s, netip.MustParseAddr(host)
	}
	first, firstAddress := serverAt("127.0.0.1")
	_, secondAddress := serverAt("127.0.0.2")
	f := newFixture(t, upstreamAt("http://model.example.test:"+port), "", newBook(t, "one: alpha"), injectAll())
	checkReply := func(name string, status int, want string) {
		t.Helper()
		res, body := f.send(t, http.MethodPost, chatPath, nil, `{"messages":[{"role":"user","content":"alpha"}]}`)
		if res.StatusCode != status {
			t.Errorf("%s: status = %d, want %d, body %s", name, res.StatusCode, status, body)
		} else if !strings.Contains(string(body), want) {
			t.Errorf("%s: got %q, want substring %q", name, string(body), want)
		}
	}
	checkReply("no address", http.StatusBadGateway, "precept_error")
	names.address.Store(&firstAddress)
	for i := range 3 {
		checkReply(fmt.Sprint("first address, request ", i), http.StatusOK, "127.0.0.1")
	}
	first.CloseClientConnections()
	first.Close()
	checkReply("first server stopped", http.StatusBadGateway, "precept_error")
	names.address.Store(&secondAddress)
	for i := range 3 {
		checkReply(fmt.Sprint("second address, request ", i), http.StatusOK, "127.0.0.2")
	}
}
