//go:build !linux

package lesson

import "io/fs"

// changeTime is unknown on this system; size, modification time and inode must do.
func changeTime(fs.FileInfo) int64 { return 0 }

// reportsChanges is false on this system: kqueue needs an open file for each lesson.
func reportsChanges(string) bool { return false }
