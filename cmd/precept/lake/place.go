package lake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"precept/internal/file"
)

// Place is a directory or a bucket in which a lake is stored. A file appears whole or not at all.
type Place interface {
	fmt.Stringer
	// Get returns a file; fs.ErrNotExist: there is none.
	Get(ctx context.Context, path string) ([]byte, error)
	// Put replaces a file.
	Put(ctx context.Context, path string, data []byte) error
	// Delete removes a file, which may be missing.
	Delete(ctx context.Context, path string) error
}

// OpenPlace returns the place of an address, a directory or s3://BUCKET/PREFIX. endpoint is the
// address of an S3-compatible server; "": the address in the environment, or that of AWS.
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
func (d directory) Get(_ context.Context, name string) ([]byte, error) {
	return file.Read(d.path(name))
}

// Put implements Place. The file is synced before the rename. Unfinished copies of a process that was
// killed are removed.
func (d directory) Put(_ context.Context, name string, data []byte) error {
	at := d.path(name)
	old, _ := filepath.Glob(filepath.Join(globName(filepath.Dir(at)), "."+filepath.Base(at)+".*"))
	for _, f := range old {
		_ = os.Remove(f)
	}
	err := file.Replace(at, 0o640, func(w io.Writer) error {
		_, err := io.Copy(w, bytes.NewReader(data))
		return err
	})
	return errors.Join(err, syncFolder(filepath.Dir(at)))
}

// globName returns a path as a pattern of itself.
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

// Delete implements Place.
func (d directory) Delete(_ context.Context, name string) error {
	if err := os.Remove(d.path(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// lockFile locks a file, which stays.
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
