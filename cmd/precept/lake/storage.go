package lake

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"precept/internal/file"
)

// Storage is a directory or a bucket with a lake's files. Writes are atomic. Paths use slashes.
type Storage interface {
	fmt.Stringer
	// Get returns a file's content and version, or an error that wraps fs.ErrNotExist.
	Get(ctx context.Context, path string) (data []byte, version string, err error)
	// Put creates or replaces a file.
	Put(ctx context.Context, path string, data []byte) error
	// CompareAndSwap replaces a file with the given version, and returns the new version. The version "" creates a file
	// that must not exist. For a different version, the error wraps ErrChanged.
	CompareAndSwap(ctx context.Context, path, version string, data []byte) (next string, err error)
}

// ErrChanged reports that another process has written the file.
var ErrChanged = errors.New("another process has changed the file")

// OpenStorage opens the storage at an address: a directory or s3://BUCKET/PREFIX. endpoint is an S3-compatible server's
// URL. If endpoint is "", environment variables name the server, and the default is AWS.
func OpenStorage(address, endpoint string, env func(string) string) (Storage, error) {
	scheme, rest, ok := strings.Cut(address, "://")
	switch {
	case ok && scheme == "s3":
		return newBucket(rest, endpoint, env)
	case ok:
		return nil, fmt.Errorf("--output: %s:// is not supported; name a directory or s3://BUCKET/PREFIX", scheme)
	case endpoint != "":
		return nil, errors.New("--s3-endpoint needs --output s3://BUCKET/PREFIX")
	}
	return directory(address), nil
}

type directory string

// String returns the directory path.
func (d directory) String() string { return string(d) }

func (d directory) path(name string) string {
	return filepath.Join(string(d), filepath.FromSlash(name))
}

// Get implements Storage.
func (d directory) Get(_ context.Context, name string) (data []byte, version string, err error) {
	data, err = file.Read(d.path(name))
	return data, contentVersion(data), err
}

func contentVersion(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Put implements Storage. The file is synced before the rename. Put also deletes temporary files that a killed process
// has left.
func (d directory) Put(_ context.Context, name string, data []byte) error {
	target := d.path(name)
	old, _ := filepath.Glob(filepath.Join(escapeGlob(filepath.Dir(target)), "."+filepath.Base(target)+".*"))
	for _, f := range old {
		_ = os.Remove(f)
	}
	err := file.Replace(target, 0o640, func(w io.Writer) error {
		_, err := io.Copy(w, bytes.NewReader(data))
		return err
	})
	return errors.Join(err, syncFolder(filepath.Dir(target)))
}

// CompareAndSwap implements Storage. A new file is created with a hard link, which fails if another process was faster.
// Replacing a file is not atomic: a process on another machine may replace it at the same moment.
func (d directory) CompareAndSwap(ctx context.Context, name, version string, data []byte) (next string, err error) {
	_, current, err := d.Get(ctx, name)
	switch {
	case err == nil && current != version:
		return "", ErrChanged
	case err == nil:
		return contentVersion(data), d.Put(ctx, name, data)
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	case version != "":
		return "", fmt.Errorf("%s was deleted: %w", d.path(name), ErrChanged)
	}
	temporary := path.Join(path.Dir(name), "."+path.Base(name)+"."+rand.Text())
	if err := d.Put(ctx, temporary, data); err != nil {
		return "", err
	}
	err = os.Link(d.path(temporary), d.path(name))
	if err != nil && !errors.Is(err, fs.ErrExist) { // the file system has no hard links
		if _, statErr := os.Lstat(d.path(name)); statErr == nil {
			err = fs.ErrExist
		} else {
			err = os.Rename(d.path(temporary), d.path(name))
		}
	}
	_ = os.Remove(d.path(temporary))
	if errors.Is(err, fs.ErrExist) {
		err = ErrChanged
	}
	return contentVersion(data), errors.Join(err, syncFolder(filepath.Dir(d.path(name))))
}

// removeTemporary deletes temporary files that a killed process has left. No other process may write the files.
func (d directory) removeTemporary(names []string) {
	for _, name := range names {
		folder, base := filepath.Split(d.path(name))
		for _, start := range []string{".", ".."} { // "." for Put, ".." for CompareAndSwap
			temporary, _ := filepath.Glob(escapeGlob(folder) + start + escapeGlob(base) + ".*")
			for _, f := range temporary {
				_ = os.Remove(f)
			}
		}
	}
}

// escapeGlob returns the pattern that matches only path.
func escapeGlob(path string) string {
	return strings.NewReplacer("\\", "\\\\", "*", "\\*", "?", "\\?", "[", "\\[").Replace(path)
}

// syncFolder makes new and renamed files survive a power failure.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	_ = f.Sync() // Windows and some network disks cannot sync a folder
	return f.Close()
}

// lockFile creates and locks a file. If another process has the lock, the error wraps file.ErrLocked. On a system
// without file locks, lockFile succeeds.
func lockFile(path string) (io.Closer, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o640) //nolint:gosec // the caller chooses the path
	if err != nil {
		return nil, err
	}
	if err := file.TryLock(f); errors.Is(err, file.ErrLocked) { // any other error means that the system has no file locks
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
