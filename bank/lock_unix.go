//go:build unix

package bank

import (
	"os"
	"syscall"
)

// lock keeps other writers of the same directory out until the file is closed, also after a crash. A file system that knows no
// locks goes without: then two writers at once may leave an index that is one change behind.
func lock(f *os.File) { _ = syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }
