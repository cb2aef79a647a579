package storetest_test

import (
	"net"
	"testing"

	"precept/store/storetest"
)

// A free port stays reserved between two runs of a server, and the server may use the port.
func TestFreePortIsReservedUntilTheEndOfTheTest(t *testing.T) {
	port := ""
	t.Run("reserved", func(t *testing.T) {
		port = storetest.FreePort(t)
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			t.Fatalf("a server cannot use port %s: %v", port, err)
		}
		_ = l.Close()
		if c, err := net.ListenPacket("udp", "127.0.0.1:"+port); err == nil {
			_ = c.Close()
			t.Errorf("port %s is not reserved, want a UDP socket of the same number", port)
		}
	})
	c, err := net.ListenPacket("udp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatalf("port %s is still reserved after the test: %v", port, err)
	}
	_ = c.Close()
}
