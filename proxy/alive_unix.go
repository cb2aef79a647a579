//go:build unix

package proxy

import (
	"errors"
	"syscall"
)

// peek looks at what an idle connection has to say, again and again; it is kept with the connection, so that a look allocates
// nothing.
type peek struct {
	conn  syscall.RawConn
	look  func(fd uintptr) bool
	quiet bool
	b     [1]byte
}

func newPeek(sc syscall.Conn) (*peek, error) {
	conn, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	p := &peek{conn: conn}
	p.look = func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), p.b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		p.quiet = errors.Is(err, syscall.EAGAIN)
		return true
	}
	return p, nil
}

// alive looks, without waiting, whether an idle connection has been closed, or has something to say that nobody asked for.
func alive(c *wireConn) bool {
	if c.peek == nil {
		sc, ok := c.Conn.(syscall.Conn)
		if !ok {
			return true
		}
		p, err := newPeek(sc)
		if err != nil {
			return false
		}
		c.peek = p
	}
	c.peek.quiet = false
	return c.peek.conn.Read(c.peek.look) == nil && c.peek.quiet
}

// isReset says whether the other side had closed the connection when we wrote to it or read from it.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
