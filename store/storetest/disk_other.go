//go:build !linux

package storetest

import "testing"

// Disk is a real file system that is as small as a test wants it.
type Disk struct{ Dir string }

// SmallDisk is of Linux.
func SmallDisk(t *testing.T, _ int) *Disk {
	t.Helper()
	t.Skip("a small disk can be mounted on Linux only")
	return nil
}

// Fill takes what space is left.
func (d *Disk) Fill(testing.TB, int) {}

// Room returns the number of free bytes.
func (d *Disk) Room(testing.TB) int64 { return 0 }

// Free gives back what Fill took.
func (d *Disk) Free(testing.TB) {}

// ReadOnly makes it one that cannot be written.
func (d *Disk) ReadOnly(testing.TB, bool) {}
