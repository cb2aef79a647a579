//go:build unix

package sqlite_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"precept/store/sqlite"
)

// unprivilegedUser returns the path of the test binary, and a nil user, which means the current user. If the current
// user is root, who can write to every directory, unprivilegedUser instead returns the path of a copy of the binary,
// and the user nobody.
func unprivilegedUser(t *testing.T) (binary string, user *syscall.Credential) {
	t.Helper()
	if os.Geteuid() != 0 {
		return os.Args[0], nil
	}
	binary = filepath.Join(worldAccessibleDir(t), "helper")
	in, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close() //nolint:errcheck // the file was opened only for reading
	out, err := os.OpenFile(binary, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return binary, &syscall.Credential{Uid: 65534, Gid: 65534}
}

// worldAccessibleDir returns a temporary directory that every user can open.
func worldAccessibleDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != filepath.Dir(d) && strings.HasPrefix(d, os.TempDir()); d = filepath.Dir(d) {
		if info, err := os.Stat(d); err != nil || info.Mode()&0o005 != 0o005 {
			if err := os.Chmod(d, 0o755); err != nil {
				t.Skipf("%s cannot be opened to others: %v", d, err)
			}
		}
	}
	return dir
}

func TestStoreInAReadOnlyDirectoryIsReadable(t *testing.T) {
	binary, user := unprivilegedUser(t)
	dir := worldAccessibleDir(t)
	path := filepath.Join(dir, "precept.db")
	s := open(t, sqlite.Options{Path: path})
	mustWrite(t, s, rowBatch(1))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(path, 0o444), os.Chmod(dir, 0o555)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })

	for _, mode := range []string{"open", "lock"} {
		target := path
		if mode == "lock" {
			target = dir
		}
		line := startProcessAs(t, binary, user, mode, target).readLine(t)
		for _, part := range []string{"error: ", dir, sqlite.ErrReadOnly.Error(), "make the directory writable", "--data-dir"} {
			if !strings.Contains(line, part) {
				t.Errorf("helper process in the mode %s in a read-only directory: got the line %q, want it to contain %q", mode, line, part)
			}
		}
	}
	if line := startProcessAs(t, binary, user, "open", path, "ro").readLine(t); line != "sessions 1" {
		t.Errorf(`read-only Open in a read-only directory: got the line %q, want "sessions 1"`, line)
	}
}

func TestOpenRefusesFileAsDataDir(t *testing.T) {
	file := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(file, "precept.db")})
	if !errors.Is(err, sqlite.ErrReadOnly) {
		t.Errorf("Open with a file as the data directory: got error %v, want sqlite.ErrReadOnly", err)
	}
	checkErrorText(t, err, file, "--data-dir")
}
