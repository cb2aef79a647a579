package lesson

import (
	"io/fs"
	"slices"
	"syscall"
)

// changeTime returns the inode's change time. Unlike the modification time, no program can set it.
func changeTime(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ctim.Nano()
	}
	return 0
}

// reportsChanges returns false for network and FUSE file systems, because other machines can change files there without
// a report.
func reportsChanges(folder string) bool {
	const nfs, cifs, smb, smb2, fuse, p9, ceph, afs, vbox = 0x6969, 0xff534d42, 0x517b, 0xfe534d42, 0x65735546, 0x01021997, 0x00c36400, 0x5346414f, 0x786f4256
	var st syscall.Statfs_t
	if syscall.Statfs(folder, &st) != nil {
		return true
	}
	return !slices.Contains([]uint32{nfs, cifs, smb, smb2, fuse, p9, ceph, afs, vbox}, uint32(st.Type)) //nolint:gosec // the number of a file system fits in a uint32
}
