package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// cursorFile says how far the spool is delivered. Safe is a place before which the backend cannot
// lose anything any more, not even in a power cut: segments are kept from there on, and after a
// restart of the machine, or when the backend has lost something meanwhile, delivery begins there.
// What is delivered twice is stored once.
type cursorFile struct {
	Version   int    `json:"version"`
	Spool     string `json:"spool"` // whose cursor it is: that of the segments with this name in their heads
	Boot      string `json:"boot"`
	Epoch     string `json:"epoch,omitempty"` // of the backend
	Delivered ledger `json:"delivered"`
	Safe      ledger `json:"safe"`
	// End is where the spool ended, Admitted how many exchanges were admitted by then: what is
	// missing later was lost.
	End      place `json:"end"`
	Admitted int64 `json:"admitted"`
}

const (
	cursorName    = "cursor.json"
	damagedCursor = cursorName + ".damaged"
	cursorBlock   = 4096 // the file's size is a multiple of it, so that on a full disk the next one fits into its place
)

// start is from where delivery goes on.
func (c *cursorFile) start() ledger {
	if boot := bootID(); boot == "" || boot != c.Boot {
		return c.Safe.clone()
	}
	return c.Delivered.clone()
}

// bootID changes when the machine starts anew, "" where it cannot be told.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// readCursor reads the cursor. Where there is none, or none that belongs to what is there
// (damaged), it is one that begins with the first segment: everything that is there is delivered
// again.
func readCursor(dir string, segs []segment) (c cursorFile, damaged bool, err error) {
	names, err := readHeads(dir, segs)
	if err != nil {
		return c, false, err
	}
	b, err := os.ReadFile(filepath.Join(dir, cursorName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return atHead(dir, segs), false, nil
	case err != nil:
		return c, false, fmt.Errorf("read the spool's cursor: %w", err)
	case json.Unmarshal(b, &c) != nil || c.Version < spoolVersion || c.Spool == "":
		return atHead(dir, segs), true, nil //nolint:nilerr // a cursor that cannot be read is told as damaged
	case c.Version > spoolVersion:
		return c, false, newer(c.Version)
	case len(names) > 0 && !names[c.Spool]:
		return atHead(dir, segs), true, nil
	}
	return c, false, nil
}

func newer(version int) error {
	return fmt.Errorf("%w (version %d, this one knows %d): upgrade precept, or let the newer one drain it", ErrSpoolNewer, version, spoolVersion)
}

// readHeads lists the spools that the segments say to belong to, and refuses those of a later
// release.
func readHeads(dir string, segs []segment) (map[string]bool, error) {
	names := map[string]bool{}
	for _, seg := range segs {
		h, ok := readHead(seg.path(dir))
		if ok && h.Version > spoolVersion {
			return nil, newer(h.Version)
		}
		if ok {
			names[h.Spool] = true
		}
	}
	return names, nil
}

// readHead reads the first record of a segment.
func readHead(path string) (h segmentHead, ok bool) {
	f, err := os.Open(path)
	if err != nil {
		return h, false
	}
	defer f.Close() //nolint:errcheck // it was only read
	b := make([]byte, 1024)
	n, _ := f.ReadAt(b, 0)
	kind, payload, _, err := readFrame(b[:n])
	if err != nil || kind != frameSegment || json.Unmarshal(payload, &h) != nil {
		return h, false
	}
	return h, true
}

// atHead is the cursor of a spool that has none. What was admitted before the first segment is
// taken for stored.
func atHead(dir string, segs []segment) cursorFile {
	c := cursorFile{Version: spoolVersion}
	l := ledger{At: place{Segment: 1}, Guessed: true}
	for i, seg := range segs {
		h, ok := readHead(seg.path(dir))
		if i == 0 {
			l.At.Segment = seg.n
			l.Admitted, l.Stored = h.Admitted, h.Admitted
		}
		if ok {
			c.Spool = h.Spool
			break
		}
	}
	c.Delivered, c.Safe = l, l.clone()
	return c
}

// writeCursor keeps how far delivery came.
func writeCursor(dir string, c *cursorFile) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	b = append(b, bytes.Repeat([]byte{' '}, cursorBlock-len(b)%cursorBlock)...)
	path := filepath.Join(dir, cursorName)
	err = replaceFile(path, b)
	if full(err) {
		err = overwrite(path, b)
	}
	if err != nil {
		return fmt.Errorf("write the spool's cursor: %w", err)
	}
	return nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// replaceFile puts a file into the place of another: one of them is there, whole, whatever happens.
func replaceFile(path string, b []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		_ = os.Remove(path + ".new") // half of it is worth more as space
		return err
	}
	return syncDir(filepath.Dir(path))
}

// overwrite writes into a file's own blocks, which a full disk still allows. A crash in the middle
// of it costs the cursor: everything that is there is then delivered again.
func overwrite(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Size() < int64(len(b)) {
		err = syscall.ENOSPC // it would have to grow
	}
	if err == nil {
		b = append(b, bytes.Repeat([]byte{' '}, int(info.Size())-len(b))...)
		_, err = f.WriteAt(b, 0)
	}
	return errors.Join(err, f.Sync(), f.Close())
}
