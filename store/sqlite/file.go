package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// magic starts every SQLite file (sqlite.org/fileformat.html, 1.3).
const magic = "SQLite format 3\x00"

// checkHeader returns ErrCorrupt for a file that is not a database. A missing or empty file is valid.
func checkHeader(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	}
	defer f.Close() //nolint:errcheck // the file was only read
	info, err := f.Stat()
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("%w: the path is a directory; write a file name in store.url", ErrForeign)
	case err != nil || info.Size() == 0:
		return err
	}
	return checkMagic(f)
}

func checkMagic(f *os.File) error {
	var head [100]byte // the whole header
	if n, _ := f.ReadAt(head[:], 0); n < len(head) || string(head[:len(magic)]) != magic {
		return fmt.Errorf("%w: the file has no SQLite header", ErrCorrupt)
	}
	return nil
}

// checkTables reads a few rows from every table, so that Open detects damage after the header.
func checkTables(c *conn) {
	for _, table := range []string{
		"tenants", "sessions", "echoes", "exchanges", "samples", "feedback", "parked", "settled",
		"counters", "maxima", "priors", "meta", "totals", "unsettled", "aside", "marks", "notes", "parked_of",
	} {
		c.queryInt("SELECT count(*) FROM (SELECT 1 FROM " + table + " LIMIT 10)")
	}
}

// setAside renames a damaged file, its WAL and its shared-memory file, without overwriting other files, and returns the
// new name.
func setAside(path string, now time.Time) (string, error) {
	base := path + ".corrupt-" + now.UTC().Format("20060102T150405Z")
	aside := base
	for n := 2; ; n++ {
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			break
		}
		aside = fmt.Sprintf("%s-%d", base, n)
	}
	for _, suffix := range []string{"-wal", "-shm", ""} { // the database last: after a crash in between, the next start finds the damage again
		if err := os.Rename(path+suffix, aside+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return aside, nil
}

// prepareDir makes the file's directory. The error names the cause; SQLite would report "unable to open database file".
func prepareDir(path string) error {
	dir := filepath.Dir(path)
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		var f *os.File
		if f, err = os.CreateTemp(dir, ".probe-*"); err == nil {
			err = errors.Join(f.Close(), os.Remove(f.Name()))
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	}
	return nil
}

// fileIdentity detects that the open file was replaced or overwritten. SQLite would otherwise write to a removed file
// or into the new content.
type fileIdentity struct {
	path string
	file *os.File
	info fs.FileInfo
}

func openIdentity(path string) (*fileIdentity, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &fileIdentity{path, f, info}, nil
}

// check returns an error if the path leads to a different file or content. It runs before each write transaction.
func (f *fileIdentity) check() error {
	info, err := os.Stat(f.path)
	if err != nil {
		return fmt.Errorf("%w: the file was removed while in use: %w", ErrCorrupt, err)
	}
	if !os.SameFile(info, f.info) {
		return fmt.Errorf("%w: the file was replaced while in use", ErrCorrupt)
	}
	return checkMagic(f.file)
}

func (f *fileIdentity) close() error { return f.file.Close() }
