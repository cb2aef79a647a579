package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// magic is how every SQLite file begins (sqlite.org/fileformat.html, 1.3).
const magic = "SQLite format 3\x00"

// checkHeader tells a database from garbage. A missing or empty file is a fresh one.
func checkHeader(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	info, err := f.Stat()
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("%w: it is a directory: choose a file with store.url", ErrForeign)
	case err != nil || info.Size() == 0:
		return err
	}
	return checkMagic(f)
}

func checkMagic(f *os.File) error {
	var head [100]byte // the whole header: a file cut shorter is no database either
	if n, _ := f.ReadAt(head[:], 0); n < len(head) || string(head[:len(magic)]) != magic {
		return fmt.Errorf("%w: it does not begin like a SQLite file", ErrCorrupt)
	}
	return nil
}

// probe reads a little of every table, so that a file with a good header and a bad body is noticed
// at the start.
func probe(c *conn) {
	for _, table := range []string{
		"tenants", "sessions", "echoes", "exchanges", "samples", "feedback", "parked", "settled",
		"counters", "maxima", "priors", "meta", "totals", "unsettled", "aside", "marks", "notes", "parked_of",
	} {
		c.number("SELECT count(*) FROM (SELECT 1 FROM " + table + " LIMIT 10)")
	}
}

// setAside renames the damaged file and what belongs to it, so that nothing of it is lost and
// nothing written over.
func setAside(path string, now time.Time) (string, error) {
	base := path + ".corrupt-" + now.UTC().Format("20060102T150405Z")
	aside := base
	for n := 2; ; n++ {
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			break
		}
		aside = fmt.Sprintf("%s-%d", base, n)
	}
	for _, suffix := range []string{"-wal", "-shm", ""} { // the file last: until then a repeated start sees the same garbage
		if err := os.Rename(path+suffix, aside+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return aside, nil
}

// prepareDir makes the directory and tries whether files can be made in it: SQLite's own message
// for this is "unable to open database file", whatever the reason.
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

// guard notices that the file was replaced or overwritten while we had it open. SQLite would go on
// writing into the unlinked file, or check its pages into the garbage, and all of that would be
// lost at the next start.
type guard struct {
	path string
	f    *os.File
	info fs.FileInfo
}

func newGuard(path string) (*guard, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &guard{path, f, info}, nil
}

// check costs two system calls, before each write transaction.
func (g *guard) check() error {
	info, err := os.Stat(g.path)
	if err != nil {
		return fmt.Errorf("%w: it was removed while in use: %w", ErrCorrupt, err)
	}
	if !os.SameFile(info, g.info) {
		return fmt.Errorf("%w: it was replaced while in use", ErrCorrupt)
	}
	return checkMagic(g.f)
}

func (g *guard) close() error { return g.f.Close() }
