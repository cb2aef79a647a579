//go:build !linux

package lesson

import "io/fs"

// changeTime returns 0, because the change time is not read on this system.
func changeTime(fs.FileInfo) int64 { return 0 }

// reportsChanges returns false, because this system needs an open file for each lesson in order to report changes.
func reportsChanges(string) bool { return false }
