package storetest_test

import (
	"net"
	"testing"

	"precept/store/storetest"
)

func TestFreePortIsReservedUntilTestEnds(t *testing.T) {
	port := ""
	t.Run("reserved", func(t *testing.T) {
		port = storetest.FreePort(t)
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			t.Fatalf("Listen on the reserved port %s: got error %v, want none", port, err)
		}
		_ = l.Close()
		if c, err := net.ListenPacket("udp", "127.0.0.1:"+port); err == nil {
			_ = c.Close()
			t.Errorf("ListenPacket on the reserved port %s: got no error, want an error", port)
		}
	})
	c, err := net.ListenPacket("udp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatalf("ListenPacket on port %s after the end of the test: got error %v, want none", port, err)
	}
	_ = c.Close()
}
