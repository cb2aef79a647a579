//go:build !linux

package storetest

import "testing"

// Disk is a real file system with a chosen size.
type Disk struct{ Dir string }

// SmallDisk skips the test.
func SmallDisk(t *testing.T, _ int) *Disk {
	t.Helper()
	t.Skip("a small disk can be mounted on Linux only")
	return nil
}

// Fill does nothing.
func (d *Disk) Fill(testing.TB, int) {}

// FreeBytes returns the number of free bytes.
func (d *Disk) FreeBytes(testing.TB) int64 { return 0 }

// RemoveFiller undoes Fill.
func (d *Disk) RemoveFiller(testing.TB) {}

// SetReadOnly does nothing.
func (d *Disk) SetReadOnly(testing.TB, bool) {}
