package storetest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// The operating system assigns higher ports, from 32768 (Linux) or 49152, to outgoing connections and to listeners on
// port 0. Such connections and listeners cannot take the port of a server that a test restarts.
const (
	firstPort = 10000
	lastPort  = 29999
)

// FreePort returns a free TCP port on the loopback interface. A UDP socket reserves the port number until the test
// ends, so that no call in any process returns it again.
func FreePort(t testing.TB) string {
	t.Helper()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1) //nolint:gosec,forbidigo // avoids conflicts between processes
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
