//go:build !windows

package main

import (
	"os"
	"syscall"
)

// isForeign reports whether other users can change a file. A group with the user's own id is private.
func isForeign(info os.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	isPrivateGroup := int(s.Gid) == os.Getgid() && os.Getgid() == os.Getuid()
	othersCanWrite, groupCanWrite := info.Mode().Perm()&0o002 != 0, info.Mode().Perm()&0o020 != 0
	return s.Uid != 0 && int(s.Uid) != os.Getuid() || othersCanWrite || groupCanWrite && !isPrivateGroup
}
