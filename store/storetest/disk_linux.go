package storetest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
)

// namespaceVariable is the environment variable that is set in a test process with separate namespaces.
const namespaceVariable = "STORETEST_OWN_SPACE"

// Disk is a real file system with a chosen size.
type Disk struct{ Dir string }

// SmallDisk mounts a file system with size bytes in memory. If this process may not mount file systems, SmallDisk runs
// the test in a process with separate namespaces, and skips the test in this process. If such a process cannot be
// started, SmallDisk also skips the test.
func SmallDisk(t *testing.T, size int) *Disk {
	t.Helper()
	d := &Disk{t.TempDir()}
	err := syscall.Mount("tmpfs", d.Dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", size))
	switch {
	case err == nil:
		t.Cleanup(func() {
			if err := syscall.Unmount(d.Dir, syscall.MNT_DETACH); err != nil {
				t.Error("unmount the small disk: ", err)
			}
		})
	case os.Getenv(namespaceVariable) != "":
		t.Fatal("mount a small disk: ", err)
	default:
		runInOwnNamespaces(t)
	}
	return d
}

// runInOwnNamespaces runs the test in a process with separate namespaces. If the test fails in that process, it also
// fails in this process.
func runInOwnNamespaces(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run", "^"+regexp.QuoteMeta(t.Name())+"$") //nolint:gosec // the test binary
	cmd.Env = append(os.Environ(), namespaceVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		t.Skip("the test passed in a process with separate namespaces, which may mount file systems")
	case cmd.ProcessState == nil:
		t.Skip("a small disk cannot be mounted here: ", err)
	}
	t.Fatalf("the test failed in a process with separate namespaces: %v\n%s", err, out)
}

// Fill extends a file until only freeBytes bytes are free.
func (d *Disk) Fill(t testing.TB, freeBytes int) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(d.Dir, "filler"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("fill the small disk: got error %v, want syscall.ENOSPC", err)
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		err = errors.Join(f.Truncate(max(size-int64(freeBytes), 0)), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// FreeBytes returns the number of free bytes in the file system.
func (d *Disk) FreeBytes(t testing.TB) int64 {
	t.Helper()
	var s syscall.Statfs_t
	if err := syscall.Statfs(d.Dir, &s); err != nil {
		t.Fatal(err)
	}
	return int64(s.Bavail) * s.Bsize //nolint:gosec // SmallDisk limits the size
}

// RemoveFiller deletes the file written by Fill.
func (d *Disk) RemoveFiller(t testing.TB) {
	t.Helper()
	if err := os.Remove(filepath.Join(d.Dir, "filler")); err != nil {
		t.Fatal(err)
	}
}

// SetReadOnly makes the file system either read-only, even for files that are already open, or writable.
func (d *Disk) SetReadOnly(t testing.TB, readOnly bool) {
	t.Helper()
	flags := uintptr(syscall.MS_REMOUNT)
	if readOnly {
		flags |= syscall.MS_RDONLY
	}
	if err := syscall.Mount("tmpfs", d.Dir, "tmpfs", flags, ""); err != nil {
		t.Fatal("remount the small disk: ", err)
	}
}
