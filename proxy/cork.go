package proxy

import (
	"context"
	"net"
)

// corkFrom is how long a write must be for the server to send it in three pieces: a full buffer of 4 KiB, the rest, and the end
// of the chunk.
const corkFrom = 3 << 10

// corkMost bounds what is held back of one write.
const corkMost = 64 << 10

// Corking gives connections whose pieces of one write leave in one, together with ConnContext.
func Corking(l net.Listener) net.Listener { return &corkListener{Listener: l} }

type corkListener struct {
	net.Listener
	pool pool
}

// Accept implements net.Listener.
func (l *corkListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &corkConn{Conn: newRawConn(c), pool: &l.pool}, nil
}

type corkKey struct{}

// ConnContext lets the turns of a connection find it; it is for http.Server.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, corkKey{}, c)
}

// corkOf is the connection under a request, nil where nobody put it there.
func corkOf(ctx context.Context) *corkConn {
	c, _ := ctx.Value(corkKey{}).(*corkConn)
	return c
}

// corkConn is a client's connection. Whoever holds writes back belongs to the goroutine that serves the request, as all writes do.
type corkConn struct {
	net.Conn
	pool *pool
	held []byte // nil: writes go through
}

// cork holds writes back until uncork.
func (c *corkConn) cork(n int) {
	if c != nil && c.held == nil {
		c.held = c.pool.get(min(n, corkMost) + 1<<10)
	}
}

// uncork sends what was held back.
func (c *corkConn) uncork() error {
	if c == nil || c.held == nil {
		return nil
	}
	b := c.held
	c.held = nil
	defer c.pool.put(b)
	if len(b) == 0 {
		return nil
	}
	_, err := c.Conn.Write(b)
	return err
}

// Write implements net.Conn.
func (c *corkConn) Write(b []byte) (int, error) {
	if c.held == nil {
		return c.Conn.Write(b)
	}
	if len(c.held)+len(b) > cap(c.held) {
		if err := c.uncork(); err != nil {
			return 0, err
		}
		return c.Conn.Write(b)
	}
	c.held = append(c.held, b...)
	return len(b), nil
}

// CloseWrite lets http.Server end its side first, so that a client which is still sending can read the answer.
func (c *corkConn) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
