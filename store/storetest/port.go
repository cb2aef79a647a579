package storetest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// The ports in this range are lower than those that the operating system assigns to outgoing connections and to
// listeners on port 0, which begin at 32768 on Linux and otherwise at 49152. So no such connection or listener can take
// the port of a server while a test restarts the server.
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
	t.Fatalf("found no free port between %d and %d", firstPort, lastPort)
	return ""
}
