package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// cursorFile says how far the spool is delivered. Safe is a place before which the backend cannot lose anything any more,
// not even in a power cut: segments are kept from there on, and after a restart of the machine delivery begins there.
// What is delivered twice is stored once.
type cursorFile struct {
	Version   int    `json:"version"`
	Boot      string `json:"boot"`
	Delivered ledger `json:"delivered"`
	Safe      ledger `json:"safe"`
}

const cursorName = "cursor.json"

// bootID changes when the machine starts anew, "" where it cannot be told.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// readCursor finds out from where delivery goes on. A cursor that cannot be read is set aside: everything that is there is
// delivered again.
func readCursor(dir string, segs []segment) (ledger, error) {
	start := ledger{At: place{Segment: 1}}
	if len(segs) > 0 {
		start.At.Segment = segs[0].n
	}
	path := filepath.Join(dir, cursorName)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return atHead(dir, start), nil
	}
	if err != nil {
		return start, fmt.Errorf("read the spool's cursor: %w", err)
	}
	var c cursorFile
	if err := json.Unmarshal(b, &c); err != nil || c.Version != spoolVersion {
		if err == nil && c.Version > spoolVersion {
			return start, fmt.Errorf("%w (version %d, this one knows %d): upgrade precept, or let the newer one drain it", ErrSpoolNewer, c.Version, spoolVersion)
		}
		if err := os.Rename(path, path+".damaged"); err != nil {
			return start, fmt.Errorf("set a damaged cursor aside: %w", err)
		}
		return atHead(dir, start), nil
	}
	if boot := bootID(); boot == "" || boot != c.Boot {
		return c.Safe, nil
	}
	return c.Delivered, nil
}

// atHead takes what was admitted before the first segment for stored.
func atHead(dir string, l ledger) ledger {
	f, err := os.Open(segment{n: l.At.Segment}.path(dir))
	if err != nil {
		return l
	}
	defer f.Close() //nolint:errcheck // it was only read
	b := make([]byte, 4096)
	n, _ := f.ReadAt(b, 0)
	if kind, payload, _, err := readFrame(b[:n]); err == nil && kind == frameSegment {
		var h segmentHead
		if json.Unmarshal(payload, &h) == nil {
			l.Admitted, l.Stored = h.Admitted, h.Admitted
		}
	}
	return l
}

// writeCursor keeps how far delivery came.
func writeCursor(dir string, delivered, safe *ledger) error {
	b, err := json.Marshal(cursorFile{Version: spoolVersion, Boot: bootID(), Delivered: *delivered, Safe: *safe})
	if err != nil {
		return err
	}
	path := filepath.Join(dir, cursorName)
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write the spool's cursor: %w", err)
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write the spool's cursor: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write the spool's cursor: %w", err)
	}
	return syncDir(dir)
}

// safeAge is how old a delivery must be before the spool lets go of it, beside being synced: a server may lose what it
// acknowledged in its last seconds.
const safeAge = 15 * time.Second
