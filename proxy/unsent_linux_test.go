package proxy

import (
	"net"
	"syscall"
	"testing"
	"time"
)

// The listener sets TCP_NOTSENT_LOWAT on each connection. Otherwise the kernel would accept megabytes for a client that
// reads slowly, and the next write would wait for minutes.
func TestListenerLimitsUnsentBytes(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newLimitListener(inner, time.Now, 1, time.Second)
	defer func() { _ = l.Close() }()
	client, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	raw, err := c.(*limitedConn).Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	if err := raw.Control(func(fd uintptr) { got, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotSentLowat) }); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got != maxUnsentBytes {
		t.Errorf("TCP_NOTSENT_LOWAT = %d, want %d", got, maxUnsentBytes)
	}
}
