//go:build !linux

package lesson

import "io/fs"

// changeTime returns 0: this system has no change time, so size, modification time and inode must
// suffice.
func changeTime(fs.FileInfo) int64 { return 0 }

// reportsChanges returns false: on this system, reports of changes need an open file for each lesson.
func reportsChanges(string) bool { return false }
