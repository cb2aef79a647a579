package spool

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"precept/internal/file"
)

// Ack acknowledges what stands before a place.
type Ack struct {
	At  Place
	Seq int64 // that it comes to
	// Guessed says that there was no checkpoint: what came before the first segment is not known.
	Guessed bool
	// Note is the reader's own, a JSON object, nil where there was no checkpoint. It must not have
	// the fields at, admitted and guessed.
	Note json.RawMessage
}

// ackHead are the fields of an Ack that stand beside those of its note.
type ackHead struct {
	At      Place `json:"at"`
	Seq     int64 `json:"admitted"`
	Guessed bool  `json:"guessed,omitempty"`
}

// MarshalJSON writes one object of its own fields and those of the note.
func (a Ack) MarshalJSON() ([]byte, error) {
	head, err := json.Marshal(ackHead{a.At, a.Seq, a.Guessed})
	note := bytes.TrimSpace(a.Note)
	if err != nil || len(note) < 2 || bytes.Equal(note, []byte("{}")) {
		return head, err
	}
	return append(append(head[:len(head)-1], ','), note[1:]...), nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (a *Ack) UnmarshalJSON(b []byte) error {
	var head ackHead
	note := map[string]json.RawMessage{}
	if err := errors.Join(json.Unmarshal(b, &head), json.Unmarshal(b, &note)); err != nil {
		return err
	}
	for _, field := range []string{"at", "admitted", "guessed"} {
		delete(note, field)
	}
	rest, err := json.Marshal(note)
	*a = Ack{At: head.At, Seq: head.Seq, Guessed: head.Guessed, Note: rest}
	return err
}

// Checkpoint says how far a log is read. Safe is a place before which nothing can be lost any more,
// not even in a power cut: segments are kept from there on, and after a restart of the machine, or
// when the reader's Epoch has changed, reading begins there.
type Checkpoint struct {
	Epoch     string
	Delivered Ack
	Safe      Ack
}

// cursorFile is the checkpoint as it lies on the disk.
type cursorFile struct {
	Version   int    `json:"version"`
	Spool     string `json:"spool"` // whose it is: that of the segments with this name in their heads
	Boot      string `json:"boot"`
	Epoch     string `json:"epoch,omitempty"`
	Delivered Ack    `json:"delivered"`
	Safe      Ack    `json:"safe"`
	// End is where the log ended, Seq what it had come to by then: what is missing later was lost.
	End Place `json:"end"`
	Seq int64 `json:"admitted"`
}

const (
	cursorName    = "cursor.json"
	damagedCursor = cursorName + ".damaged"
	halfCursor    = "." + cursorName + ".*" // what package file writes before it takes the place
	// The file's size is a multiple of it, so that on a full disk the next one fits into its place.
	cursorBlock = 4096
)

// delivered is from where reading goes on.
func (c *cursorFile) delivered() Ack {
	if boot := bootID(); boot == "" || boot != c.Boot {
		return c.Safe
	}
	return c.Delivered
}

// bootID changes when the machine starts anew, "" where it cannot be told.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// readCursor reads the checkpoint. Where there is none, or none that belongs to what is there
// (damaged), it is one that begins with the first segment: everything that is there is read again.
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
	case json.Unmarshal(b, &c) != nil || c.Version < version || c.Spool == "":
		return atHead(dir, segs), true, nil //nolint:nilerr // one that cannot be read is told as damaged
	case c.Version > version:
		return c, false, newer(c.Version)
	case len(names) > 0 && !names[c.Spool]:
		return atHead(dir, segs), true, nil
	}
	return c, false, nil
}

func newer(v int) error {
	return fmt.Errorf("%w (version %d, this one knows %d): upgrade precept, or let the newer one drain it", ErrNewer, v, version)
}

// readHeads lists the logs that the segments say to belong to, and refuses those of a later
// release.
func readHeads(dir string, segs []segment) (map[string]bool, error) {
	names := map[string]bool{}
	for _, seg := range segs {
		h, ok := readHead(seg.path(dir))
		if ok && h.Version > version {
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
	if err != nil || kind != KindHead || json.Unmarshal(payload, &h) != nil {
		return h, false
	}
	return h, true
}

// atHead is the checkpoint of a log that has none.
func atHead(dir string, segs []segment) cursorFile {
	c := cursorFile{Version: version}
	a := Ack{At: Place{Segment: 1}, Guessed: true}
	for i, seg := range segs {
		h, ok := readHead(seg.path(dir))
		if i == 0 {
			a.At.Segment, a.Seq = seg.n, h.Seq
		}
		if ok {
			c.Spool = h.Spool
			break
		}
	}
	c.Delivered, c.Safe = a, a
	return c
}

// kept is what the last checkpoint said.
type kept struct {
	end, delivered, safe Place
	seq                  int64
	notes                [sha256.Size]byte
}

// Keep writes down how far the log is read, and deletes the segments before the place that is safe.
// Where nothing has moved since the last time it does nothing.
func (l *Log) Keep(c Checkpoint) error {
	end, seq := l.End()
	notes := sha256.Sum256(bytes.Join([][]byte{c.Delivered.Note, c.Safe.Note}, []byte{0}))
	now := kept{end, c.Delivered.At, c.Safe.At, c.Delivered.Seq, notes}
	if now == l.kept {
		return nil
	}
	err := writeCursor(l.dir, &cursorFile{
		Version: version, Spool: l.name, Boot: l.boot, Epoch: c.Epoch,
		Delivered: c.Delivered, Safe: c.Safe, End: end, Seq: seq,
	})
	if err != nil {
		return l.failed(err)
	}
	l.kept = now
	freed, err := release(l.dir, c.Safe.At)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes -= freed
	return err
}

// writeCursor puts the checkpoint into the place of the last one.
func writeCursor(dir string, c *cursorFile) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	b = append(b, bytes.Repeat([]byte{' '}, cursorBlock-len(b)%cursorBlock)...)
	path := filepath.Join(dir, cursorName)
	switch err = file.Write(path, 0o600, b); {
	case Full(err):
		return overwrite(path, b)
	case err != nil:
		return err
	}
	return syncDir(dir) // or a power cut could bring back one whose segments are gone
}

// overwrite writes into a file's own blocks, which a full disk still allows. A crash in the middle
// of it costs the checkpoint: everything that is there is then read again.
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
