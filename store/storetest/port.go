package storetest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// The first and the last port of the servers of tests. Outgoing connections and listeners of port 0 get ports from
// 32768 (Linux) or 49152 on. They cannot take the port of a server that a test stops and starts again.
const (
	firstPort = 10000
	lastPort  = 29999
)

// FreePort returns a port of the loopback without a TCP listener. The port is reserved until the end of the test: no
// other call of FreePort, in any process, returns this port, even while no server listens. The reservation is a UDP
// socket of the same number.
func FreePort(t testing.TB) string {
	t.Helper()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1) //nolint:gosec,forbidigo // a random port keeps processes apart
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
