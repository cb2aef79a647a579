package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// With no room left the connection goes that has been without a request for longest; one with a
// request stays.
func TestDoorShowsTheQuietestOut(t *testing.T) {
	finish := make(chan struct{})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			_ = http.NewResponseController(w).Flush()
			<-finish
		}
		_, _ = io.WriteString(w, "end")
	}))
	door := newDoor(srv.Listener, 4)
	srv.Listener, srv.Config.ConnState = door, door.Watch
	srv.Start()
	t.Cleanup(srv.Close)
	dial := func(request, more string) (net.Conn, *bufio.Reader) {
		c, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		r := bufio.NewReader(c)
		if request == "" {
			return c, r
		}
		_, _ = io.WriteString(c, "GET "+request+" HTTP/1.1\r\nHost: x\r\n"+more+"\r\n")
		if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 200") {
			t.Fatalf("%s: %q, %v", request, line, err)
		}
		return c, r
	}
	_, busy := dial("/wait", "Connection: close\r\n")
	_, first := dial("", "") // never says anything
	eventually(t, func() bool { return quietIn(door) == 1 })
	_, second := dial("/once", "")
	eventually(t, func() bool { return quietIn(door) == 2 })
	dial("/once", "")
	eventually(t, func() bool { return quietIn(door) == 3 })
	dial("/once", "") // the fifth
	if b, err := first.ReadByte(); err == nil {
		t.Errorf("the quietest stays and says %q", b)
	}
	dial("/once", "")
	if _, err := io.ReadAll(second); err != nil {
		t.Errorf("the next one: %v", err)
	}
	close(finish)
	if b, err := io.ReadAll(busy); err != nil || !strings.Contains(string(b), "end") {
		t.Errorf("the one with a request ended as %q, %v", b, err)
	}
	eventually(t, func() bool { return len(door.room) == 3 })
}

func quietIn(d *Door) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.quiet.Len()
}
