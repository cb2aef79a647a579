//go:build unix

package proxy

import (
	"math"
	"syscall"
)

// openFiles returns the number of files that this process may open, or 0 if the limit is unknown.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(uint64(limit.Cur), math.MaxInt32)) //nolint:gosec,unconvert // bounded; signed on some systems
}
