//go:build race

package proxy

import (
	"errors"
	"syscall"
)

// rawSyscall tells the race detector what it must know: that what one end wrote comes before what the other one read.
func rawSyscall(trap, fd uintptr, b []byte) (n int, errn syscall.Errno) {
	var err error
	if trap == syscall.SYS_READ {
		n, err = syscall.Read(int(fd), b)
	} else {
		n, err = syscall.Write(int(fd), b)
	}
	_ = errors.As(err, &errn)
	return n, errn
}
