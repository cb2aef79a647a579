//go:build !linux

package spool

import "os"

// punchHole gives back what the segment of a place takes before it, where the system can do that.
func punchHole(string, Place) {}

// datasync waits until what was written to a file is on the disk.
func datasync(f *os.File) error { return f.Sync() }
