//go:build !race

package proxy

import (
	"syscall"
	"unsafe"
)

// rawSyscall reads into b, or writes it.
func rawSyscall(trap, fd uintptr, b []byte) (int, syscall.Errno) {
	n, _, errn := syscall.RawSyscall(trap, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b))) //nolint:gosec // the buffer is the caller's
	return int(n), errn
}
