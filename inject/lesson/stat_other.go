//go:build !linux

package lesson

import "io/fs"

// changeTime is not asked for here; size, modification time and inode have to do.
func changeTime(fs.FileInfo) int64 { return 0 }
