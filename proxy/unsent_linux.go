package proxy

import (
	"net"
	"syscall"
)

// tcpNotSentLowat is TCP_NOTSENT_LOWAT, which package syscall lacks.
const tcpNotSentLowat = 25

// limitUnsent limits the bytes that the kernel accepts for c and cannot send yet. Without the limit the kernel accepts
// megabytes, and the next write waits until the client has read a third of them. A client that reads slowly, but
// without a pause, would exceed limits.client_write_timeout.
func limitUnsent(c net.Conn) {
	tcp, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotSentLowat, maxUnsentBytes) // an older kernel has no limit
	})
}
