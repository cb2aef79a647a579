//go:build !windows

package main

import (
	"os"
	"syscall"
)

// isForeign reports whether a user other than root and the current user can change a file. A group whose id equals the
// id of the current user is the private group of the user, and has no other members.
func isForeign(info os.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	isPrivateGroup := int(s.Gid) == os.Getgid() && os.Getgid() == os.Getuid()
	othersCanWrite, groupCanWrite := info.Mode().Perm()&0o002 != 0, info.Mode().Perm()&0o020 != 0
	return s.Uid != 0 && int(s.Uid) != os.Getuid() || othersCanWrite || groupCanWrite && !isPrivateGroup
}
