package proxy

import (
	"io"
	"net"
	"os"
	"syscall"
)

// rawConn reads and writes a socket without telling the scheduler that it enters the kernel. A socket here never blocks: what
// cannot go on says so, and then the goroutine waits as with any net.Conn. Telling costs more than it brings: a call that takes
// longer than 20 us, as the write of a whole answer does, has its processor taken away and given back.
type rawConn struct {
	net.Conn
	raw         syscall.RawConn
	read, write rawCall
}

// rawMost bounds how long the processor is kept: the kernel copies this in some 10 us.
const rawMost = 64 << 10

// rawCall is one direction, used by one goroutine at a time.
type rawCall struct {
	b    []byte
	n    int
	errn syscall.Errno
	call func(fd uintptr) bool
}

// newRawConn is c itself where it is no socket.
func newRawConn(c net.Conn) net.Conn {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return c
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return c
	}
	r := &rawConn{Conn: c, raw: raw}
	r.read.call = func(fd uintptr) bool { return r.read.do(syscall.SYS_READ, fd) }
	r.write.call = func(fd uintptr) bool { return r.write.do(syscall.SYS_WRITE, fd) }
	return r
}

// do makes the call, and says false when it has to wait.
func (c *rawCall) do(trap, fd uintptr) bool {
	for {
		n, errn := rawSyscall(trap, fd, c.b)
		switch errn {
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		case 0:
			c.n, c.errn = n, 0
			return true
		default:
			c.n, c.errn = 0, errn
			return true
		}
	}
}

// Read implements net.Conn.
func (r *rawConn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	c := &r.read
	c.b = b[:min(len(b), rawMost)]
	err := r.raw.Read(c.call)
	c.b = nil
	switch {
	case err != nil:
		return 0, err
	case c.errn != 0:
		return 0, &net.OpError{Op: "read", Net: "tcp", Source: r.LocalAddr(), Addr: r.RemoteAddr(), Err: os.NewSyscallError("read", c.errn)}
	case c.n == 0:
		return 0, io.EOF
	}
	return c.n, nil
}

// Write implements net.Conn.
func (r *rawConn) Write(b []byte) (n int, err error) {
	if len(b) > rawMost {
		return r.Conn.Write(b)
	}
	c := &r.write
	for n < len(b) {
		c.b = b[n:]
		err := r.raw.Write(c.call)
		c.b = nil
		if err == nil && c.errn != 0 {
			err = &net.OpError{Op: "write", Net: "tcp", Source: r.LocalAddr(), Addr: r.RemoteAddr(), Err: os.NewSyscallError("write", c.errn)}
		}
		if err != nil {
			return n, err
		}
		n += c.n
	}
	return n, nil
}

// SyscallConn implements syscall.Conn.
func (r *rawConn) SyscallConn() (syscall.RawConn, error) { return r.raw, nil }

// CloseWrite ends our side.
func (r *rawConn) CloseWrite() error { return closeWrite(r.Conn) }
