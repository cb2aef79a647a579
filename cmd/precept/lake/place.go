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

// Place is a directory or a bucket in which a lake is stored. A file appears whole or not at all.
type Place interface {
	fmt.Stringer
	// Get returns a file and its version, or fs.ErrNotExist.
	Get(ctx context.Context, path string) (data []byte, version string, err error)
	// Put replaces a file.
	Put(ctx context.Context, path string, data []byte) error
	// Swap replaces a file that has the given version, and returns the new version. A missing file has the
	// version "". If the file has another version, Swap changes nothing and returns ErrChanged.
	Swap(ctx context.Context, path, version string, data []byte) (next string, err error)
}

// ErrChanged reports that another process has written a file.
var ErrChanged = errors.New("another process has written the file")

// OpenPlace returns the place of an address, a directory or s3://BUCKET/PREFIX. endpoint is the
// address of an S3-compatible server; "" means the address in the environment, or the address of AWS.
func OpenPlace(address, endpoint string, env func(string) string) (Place, error) {
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

// directory is a place on a disk.
type directory string

// String returns the path.
func (d directory) String() string { return string(d) }

func (d directory) path(name string) string {
	return filepath.Join(string(d), filepath.FromSlash(name))
}

// Get implements Place.
func (d directory) Get(_ context.Context, name string) (data []byte, version string, err error) {
	data, err = file.Read(d.path(name))
	return data, versionOf(data), err
}

// versionOf returns the version of a file on a disk.
func versionOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Put implements Place. The file is synced before the rename. Unfinished copies of a process that was
// killed are removed.
func (d directory) Put(_ context.Context, name string, data []byte) error {
	target := d.path(name)
	old, _ := filepath.Glob(filepath.Join(globName(filepath.Dir(target)), "."+filepath.Base(target)+".*"))
	for _, f := range old {
		_ = os.Remove(f)
	}
	err := file.Replace(target, 0o640, func(w io.Writer) error {
		_, err := io.Copy(w, bytes.NewReader(data))
		return err
	})
	return errors.Join(err, syncFolder(filepath.Dir(target)))
}

// Swap implements Place. A new file is created by a link, which fails if another process was faster. Swap does not
// notice that a process on another machine replaces the file at the same moment.
func (d directory) Swap(ctx context.Context, name, version string, data []byte) (next string, err error) {
	_, present, err := d.Get(ctx, name)
	switch {
	case err == nil && present != version:
		return "", ErrChanged
	case err == nil:
		return versionOf(data), d.Put(ctx, name, data)
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	case version != "":
		return "", fmt.Errorf("%s was deleted: %w", d.path(name), ErrChanged)
	}
	draft := path.Join(path.Dir(name), "."+path.Base(name)+"."+rand.Text())
	if err := d.Put(ctx, draft, data); err != nil {
		return "", err
	}
	err = os.Link(d.path(draft), d.path(name))
	if err != nil && !errors.Is(err, fs.ErrExist) { // the disk has no links
		if _, statErr := os.Lstat(d.path(name)); statErr == nil {
			err = fs.ErrExist
		} else {
			err = os.Rename(d.path(draft), d.path(name))
		}
	}
	_ = os.Remove(d.path(draft))
	if errors.Is(err, fs.ErrExist) {
		err = ErrChanged
	}
	return versionOf(data), errors.Join(err, syncFolder(filepath.Dir(d.path(name))))
}

// removeDrafts deletes the drafts (temporary files) that a killed process left. No other process may write the files.
func (d directory) removeDrafts(names []string) {
	for _, name := range names {
		folder, base := filepath.Split(d.path(name))
		for _, start := range []string{".", ".."} { // the temporary file of Swap, and that of Put for the first
			drafts, _ := filepath.Glob(globName(folder) + start + globName(base) + ".*")
			for _, f := range drafts {
				_ = os.Remove(f)
			}
		}
	}
}

// globName returns the glob pattern that matches only path.
func globName(path string) string {
	return strings.NewReplacer("\\", "\\\\", "*", "\\*", "?", "\\?", "[", "\\[").Replace(path)
}

// syncFolder makes the names of a folder durable, on systems that can.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	_ = f.Sync() // Windows and some network disks refuse to sync a folder
	return f.Close()
}

// lockFile creates and locks a file. The file stays after the lock is released.
func lockFile(path string) (io.Closer, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o640) //nolint:gosec // a name of this package
	if err != nil {
		return nil, err
	}
	if err := file.TryLock(f); errors.Is(err, file.ErrHeld) { // other errors: the system has no locks
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
