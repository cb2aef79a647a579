package proxy

import (
	"net"
	"syscall"
	"testing"
	"time"
)

// Otherwise the kernel accepts megabytes for a client that reads slowly, and the next write waits for minutes.
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
	if err != nil || got != maxUnsentBytes {
		t.Errorf("TCP_NOTSENT_LOWAT: got %d, %v, want %d", got, err, maxUnsentBytes)
	}
}
