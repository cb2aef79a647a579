package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	segmentBytes  = 64 << 20
	ballastBytes  = 1 << 20 // given back to a full disk, so that what is waiting can be booked
	segmentSuffix = ".spool"
	spoolVersion  = 1
)

// ErrSpoolNewer is answered for a spool that a later release wrote.
var ErrSpoolNewer = errors.New("the spool was written by a newer release of precept")

// errQuota says that the spool may not grow any more.
var errQuota = errors.New("the spool has reached limits.spool_bytes")

// place is an offset in a segment.
type place struct {
	Segment uint64 `json:"segment"`
	Offset  int64  `json:"offset"`
}

func (p place) before(q place) bool {
	return p.Segment < q.Segment || p.Segment == q.Segment && p.Offset < q.Offset
}

// segmentHead is the first record of a segment. Admitted is how many exchanges were admitted before it: whatever becomes
// of the segments before, what they held can be accounted for.
type segmentHead struct {
	Version  int   `json:"version"`
	Admitted int64 `json:"admitted"`
}

// spool is the write-ahead log between the recorder and the backend: what is in it survives the program, and waits as long
// as the backend cannot take it. It belongs to the recorder.
type spool struct {
	dir      string
	quota    int64
	f        *os.File // the last segment
	end      place
	admitted int64
	bytes    int64 // of all segments
	buf      []byte
	fresh    bool // the last segment must not be appended to
	ballast  bool
}

// openSpool opens the spool of a directory, or makes one. It returns the ledger from which delivery goes on. What a crash
// left behind is looked at when it is read, not now: a start must not wait for it.
func openSpool(dir string, quota int64) (*spool, ledger, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, ledger{}, fmt.Errorf("make the spool: %w", err)
	}
	s := &spool{dir: dir, quota: quota}
	segs, err := segments(dir)
	if err != nil {
		return nil, ledger{}, err
	}
	from, err := readCursor(dir, segs)
	if err != nil {
		return nil, ledger{}, err
	}
	s.end = place{Segment: max(from.At.Segment, 1)}
	s.admitted = from.Admitted
	for _, seg := range segs {
		s.bytes += seg.size
	}
	s.fresh = true
	if n := len(segs); n > 0 {
		if err := s.resume(segs[n-1], from); err != nil {
			return nil, ledger{}, err
		}
	}
	s.fill()
	return s, from, nil
}

// resume takes up the last segment where its last whole record ends.
func (s *spool) resume(seg segment, from ledger) error {
	f, err := os.OpenFile(seg.path(s.dir), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open the spool: %w", err)
	}
	p, damages := parcel{}, int64(0)
	s.admitted = 0
	at, torn, err := scan(f, 0, seg.size, func(kind byte, payload []byte, _ int64) (bool, error) {
		if kind == frameSegment {
			return true, s.begin(payload)
		}
		return true, p.count(kind, payload)
	}, func(int64, int64) { damages++ })
	if err != nil {
		return errors.Join(err, f.Close())
	}
	s.admitted = max(s.admitted+p.admitted+damages, from.Admitted)
	s.f, s.end, s.fresh = f, place{seg.n, at}, false
	switch {
	case at < from.At.Offset && seg.n == from.At.Segment: // shorter than what was delivered of it
		s.fresh = true
	case torn && damages == 0:
		s.bytes -= seg.size - at
		if err := f.Truncate(at); err != nil {
			return errors.Join(fmt.Errorf("cut the spool behind its last record: %w", err), f.Close())
		}
	case torn || damages > 0:
		s.fresh = true // the reader sets aside what is damaged
	}
	return nil
}

func (s *spool) begin(payload []byte) error {
	var h segmentHead
	if err := json.Unmarshal(payload, &h); err != nil {
		return nil //nolint:nilerr // damaged in a way that its checksum does not tell: nothing is known of what was before
	}
	if h.Version > spoolVersion {
		return fmt.Errorf("%w (version %d, this one knows %d): upgrade precept, or let the newer one drain it", ErrSpoolNewer, h.Version, spoolVersion)
	}
	s.admitted = h.Admitted
	return nil
}

// write appends records that admit so many exchanges, all or nothing, and waits until they are on the disk. It returns the
// place behind them.
func (s *spool) write(records []byte, admitted int64) (place, error) {
	if s.f == nil || s.fresh || s.end.Offset > 0 && s.end.Offset+int64(len(records)) > segmentBytes {
		if err := s.rotate(); err != nil {
			return s.end, s.failed(err)
		}
	}
	if s.bytes+int64(len(records)) > s.quota {
		return s.end, errQuota
	}
	_, err := s.f.WriteAt(records, s.end.Offset)
	if err == nil {
		err = syscall.Fdatasync(int(s.f.Fd()))
	}
	if err != nil {
		if e := s.f.Truncate(s.end.Offset); e != nil {
			s.fresh = true // the reader will find half a record there
		}
		return s.end, s.failed(err)
	}
	s.end.Offset += int64(len(records))
	s.bytes += int64(len(records))
	s.admitted += admitted
	return s.end, nil
}

// failed gives a full disk the ballast back.
func (s *spool) failed(err error) error {
	if full(err) && s.ballast {
		s.ballast = os.Remove(filepath.Join(s.dir, "ballast")) != nil
	}
	return fmt.Errorf("write the spool: %w", err)
}

func full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// fill makes the ballast, when there is none.
func (s *spool) fill() {
	if s.ballast {
		return
	}
	path := filepath.Join(s.dir, "ballast")
	if err := os.WriteFile(path, make([]byte, ballastBytes), 0o600); err != nil {
		_ = os.Remove(path) // half of it is worth more as space
		return
	}
	s.ballast = true
}

// rotate begins a segment.
func (s *spool) rotate() error {
	next := place{Segment: s.end.Segment}
	if s.f != nil || s.end.Offset > 0 {
		next.Segment++
	}
	f, err := os.OpenFile(segment{n: next.Segment}.path(s.dir), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	for errors.Is(err, fs.ErrExist) { // there is one that a cursor of ours does not know of
		next.Segment++
		f, err = os.OpenFile(segment{n: next.Segment}.path(s.dir), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if err != nil {
		return err
	}
	head, err := json.Marshal(segmentHead{Version: spoolVersion, Admitted: s.admitted})
	if err != nil {
		return errors.Join(err, f.Close())
	}
	frame := closeFrame(append(openFrame(nil, frameSegment), head...), 0)
	if _, err = f.WriteAt(frame, 0); err == nil {
		err = errors.Join(f.Sync(), syncDir(s.dir))
	}
	if err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	if s.f != nil {
		err = s.f.Close()
	}
	next.Offset = int64(len(frame))
	s.f, s.end, s.fresh = f, next, false
	s.bytes += next.Offset
	return err
}

// release deletes the segments that end before a place.
func (s *spool) release(until place) error {
	segs, err := segments(s.dir)
	if err != nil {
		return err
	}
	for _, seg := range segs {
		if seg.n >= until.Segment || seg.n >= s.end.Segment {
			break
		}
		if err := os.Remove(seg.path(s.dir)); err != nil {
			return fmt.Errorf("delete a drained segment of the spool: %w", err)
		}
		s.bytes -= seg.size
	}
	return nil
}

func (s *spool) close() error {
	if s.f == nil {
		return nil
	}
	f := s.f
	s.f, s.fresh = nil, true
	return f.Close()
}

// segment is one file of the spool.
type segment struct {
	n    uint64
	size int64
}

func (g segment) path(dir string) string {
	return filepath.Join(dir, fmt.Sprintf("%016d", g.n)+segmentSuffix)
}

// segments lists a spool's files, in their order.
func segments(dir string) ([]segment, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the spool: %w", err)
	}
	var out []segment
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), segmentSuffix)
		n, err := strconv.ParseUint(name, 10, 64)
		if !ok || err != nil {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return nil, fmt.Errorf("list the spool: %w", err)
		}
		out = append(out, segment{n, info.Size()})
	}
	slices.SortFunc(out, func(a, b segment) int {
		if a.n < b.n {
			return -1
		}
		return 1
	})
	return out, nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
