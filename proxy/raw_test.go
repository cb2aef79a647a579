package proxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// pair is two ends of a connection, the first one raw.
func pair(t *testing.T) (net.Conn, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	r := newRawConn(a)
	t.Cleanup(func() { _, _ = r.Close(), b.Close() })
	return r, b
}

// Both directions at once, in pieces of every size, against a reader that is slower.
func TestRawConnCarriesEverything(t *testing.T) {
	r, other := pair(t)
	want := bytes.Repeat([]byte("0123456789abcdefg"), 100_000)
	send := func(c net.Conn) {
		for rest, n := want, 1; len(rest) > 0; n = n*3 + 1 {
			n = min(n%300_000, len(rest))
			if k, err := c.Write(rest[:n]); err != nil || k != n {
				t.Errorf("%d of %d written: %v", k, n, err)
				return
			}
			rest = rest[n:]
		}
		_ = closeWrite(c)
	}
	receive := func(c net.Conn, pause time.Duration) {
		var got bytes.Buffer
		for b := make([]byte, 100_000); ; time.Sleep(pause) {
			n, err := c.Read(b)
			got.Write(b[:n])
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Error(err)
				break
			}
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%d bytes arrived of %d", got.Len(), len(want))
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { send(r) })
	wg.Go(func() { send(other) })
	wg.Go(func() { receive(r, 0) })
	wg.Go(func() { receive(other, time.Millisecond) })
	wg.Wait()
}

func TestRawConnEnds(t *testing.T) {
	r, other := pair(t)
	if n, err := r.Read(nil); n != 0 || err != nil {
		t.Errorf("nothing to read into: %d %v", n, err)
	}
	_ = r.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || !isTimeout(err) {
		t.Errorf("a read past its deadline: %v", err)
	}
	_ = r.SetReadDeadline(time.Time{})

	_ = other.(*net.TCPConn).SetLinger(0)
	_ = other.Close()
	if _, err := r.Read(make([]byte, 1)); !isReset(err) {
		t.Errorf("a reset connection is read: %v", err)
	}
	if _, err := r.Write([]byte("x")); !isReset(err) {
		t.Errorf("a reset connection is written: %v", err)
	}

	r, _ = pair(t)
	time.AfterFunc(20*time.Millisecond, func() { _ = r.Close() })
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed while it was read: %v", err)
	}
	if _, err := r.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("written after it was closed: %v", err)
	}
}

// A writer whose reader does not read waits, and its deadline ends that.
func TestRawConnWriteDeadline(t *testing.T) {
	r, _ := pair(t)
	_ = r.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	piece := make([]byte, 60<<10)
	for {
		if _, err := r.Write(piece); err != nil {
			if !isTimeout(err) {
				t.Errorf("%v", err)
			}
			return
		}
	}
}

// What is no socket stays what it is.
func TestRawConnOfAPipe(t *testing.T) {
	a, b := net.Pipe()
	defer func() { _, _ = a.Close(), b.Close() }()
	if c := newRawConn(a); c != a {
		t.Errorf("%T", c)
	}
}
