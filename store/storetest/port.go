package storetest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// FreePort returns ports from firstPort to lastPort. The operating system assigns higher ports, from 32768 (Linux) or
// 49152, to outgoing connections and to listeners on port 0, which therefore cannot take the port of a server that a
// test stops and restarts.
const (
	firstPort = 10000
	lastPort  = 29999
)

// FreePort returns a port of the loopback interface on which no TCP listener listens. The port is reserved by a UDP
// socket with the same number until the end of the test, so that no other call of FreePort, in any process, returns
// this port.
func FreePort(t testing.TB) string {
	t.Helper()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1) //nolint:gosec,forbidigo // a random port avoids conflicts between processes
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		reservation, err := net.ListenPacket("udp", addr) //nolint:noctx // returns at once
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", addr) //nolint:noctx // returns at once
		if err != nil {
			_ = reservation.Close()
			continue
		}
		_ = l.Close()
		t.Cleanup(func() { _ = reservation.Close() })
		return strconv.Itoa(port)
	}
	t.Fatalf("no free port between %d and %d", firstPort, lastPort)
	return ""
}
