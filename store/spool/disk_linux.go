package spool

import (
	"os"
	"syscall"
)

const keepSizeAndPunch = 0x01 | 0x02 // FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE

// punchHole gives back what the segment of a place takes before it, but for its head. It is for a
// full disk, where the segment cannot be left: that would take a new one. Where a file system
// cannot do it, nothing changes.
func punchHole(dir string, until Place) {
	if until.Offset <= cursorBlock {
		return
	}
	f, err := os.OpenFile(segment{n: until.Segment}.path(dir), os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer f.Close() //nolint:errcheck // nothing was written to it
	_ = syscall.Fallocate(int(f.Fd()), keepSizeAndPunch, cursorBlock, until.Offset-cursorBlock)
}

// datasync waits until what was written to a file is on the disk.
func datasync(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
