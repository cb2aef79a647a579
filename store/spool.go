package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const (
	segmentBytes = 64 << 20
	ballastBytes = 1 << 20 // given to the backend when the disk is full, so that it can drain the spool
	ballastName  = "ballast"
	spoolVersion = 1
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

// segmentHead is the first record of a segment. Admitted is how many exchanges were admitted before
// it: whatever becomes of the segments before, what they held can be accounted for.
type segmentHead struct {
	Version  int    `json:"version"`
	Spool    string `json:"spool"` // tells its segments from those of another directory
	Admitted int64  `json:"admitted"`
}

// spool is the write-ahead log between the recorder and the backend: what is in it survives the
// program, and waits as long as the backend cannot take it. Whoever holds batch.mu may use it; what
// was written and not released may be read by anybody.
type spool struct {
	dir      string
	name     string
	boot     string // see bootID
	quota    int64
	f        *os.File // the last segment, nil while there is none
	end      place
	admitted int64
	bytes    int64 // of all segments
	buf      []byte
	fresh    bool // the last segment must not be appended to
	ballast  bool
}

// openSpool opens the spool of a directory, or makes one. It returns the cursor from which delivery
// goes on. What a crash left behind is looked at when it is read, not now: a start must not wait
// for it.
func openSpool(dir string, quota int64, now time.Time) (*spool, cursorFile, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, cursorFile{}, fmt.Errorf("make the spool: %w", err)
	}
	segs, err := segments(dir)
	if err != nil {
		return nil, cursorFile{}, err
	}
	c, damaged, err := readCursor(dir, segs)
	if err != nil {
		return nil, cursorFile{}, err
	}
	if damaged {
		if err := os.Rename(filepath.Join(dir, cursorName), filepath.Join(dir, damagedCursor)); err != nil {
			return nil, cursorFile{}, fmt.Errorf("set a damaged cursor aside: %w", err)
		}
	}
	if c.Spool == "" {
		c.Spool = strconv.FormatInt(now.UnixNano(), 36)
	}
	s := &spool{dir: dir, name: c.Spool, boot: bootID(), quota: quota}
	for _, seg := range segs {
		s.bytes += seg.size
	}
	from := c.start()
	s.end, s.admitted = from.At, max(c.Admitted, from.Admitted)
	if err := s.resume(segs, &c); err != nil {
		return nil, cursorFile{}, err
	}
	if err := s.tryOut(); err != nil {
		return nil, cursorFile{}, errors.Join(err, s.close())
	}
	_ = s.fill() // tried again before each write
	return s, c, nil
}

// tryOut finds out whether files can be made here, before the program relies on it.
func (s *spool) tryOut() error {
	path := filepath.Join(s.dir, cursorName+".new")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(path))
	}
	if err != nil {
		return fmt.Errorf("write the spool: %w", err)
	}
	return nil
}

// write appends records that admit so many exchanges, all or nothing, and waits until they are on
// the disk. It returns the place behind them.
func (s *spool) write(records []byte, admitted int64) (place, error) {
	if err := s.fill(); full(err) { // the last of the disk's room is the backend's: it can drain the spool, and nothing else can
		return s.end, s.failed(err)
	}
	if s.f == nil || s.fresh || s.end.Offset+int64(len(records)) > segmentBytes {
		if err := s.rotate(); err != nil {
			return s.end, s.failed(err)
		}
	}
	if s.bytes+int64(len(records)) > s.quota {
		return s.end, errQuota
	}
	_, err := s.f.WriteAt(records, s.end.Offset)
	if err == nil {
		err = datasync(s.f)
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

func (s *spool) failed(err error) error { return fmt.Errorf("write the spool: %w", err) }

// dropBallast gives the ballast's space to whatever needs it first.
func (s *spool) dropBallast() {
	if s.ballast {
		s.ballast = os.Remove(filepath.Join(s.dir, ballastName)) != nil
	}
}

func full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// fill makes the ballast, when there is none.
func (s *spool) fill() error {
	if s.ballast {
		return nil
	}
	path := filepath.Join(s.dir, ballastName)
	if info, err := os.Stat(path); err != nil || info.Size() != ballastBytes {
		if err := os.WriteFile(path, make([]byte, ballastBytes), 0o600); err != nil {
			return errors.Join(err, os.Remove(path)) // half of it is worth more as space
		}
	}
	s.ballast = true
	return nil
}

// rotate begins a segment.
func (s *spool) rotate() error {
	next := place{Segment: max(s.end.Segment, 1)}
	if s.f != nil || s.end.Offset > 0 {
		next.Segment++
	}
	head, err := json.Marshal(segmentHead{Version: spoolVersion, Spool: s.name, Admitted: s.admitted})
	if err != nil {
		return err
	}
	frame := closeFrame(append(openFrame(nil, frameSegment), head...), 0)
	f, err := os.OpenFile(segment{n: next.Segment}.path(s.dir), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	for errors.Is(err, os.ErrExist) { // there is one that no cursor knows of
		next.Segment++
		f, err = os.OpenFile(segment{n: next.Segment}.path(s.dir), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(frame, 0); err == nil {
		err = errors.Join(f.Sync(), syncDir(s.dir))
	}
	if err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	err = s.close()
	next.Offset = int64(len(frame))
	s.f, s.end, s.fresh = f, next, false
	s.bytes += next.Offset
	return err
}

// retire leaves the last segment behind without beginning another one, which would want space. It
// returns the new end.
func (s *spool) retire() (place, error) {
	if s.f == nil && s.end.Offset == 0 {
		return s.end, nil
	}
	s.end = place{Segment: s.end.Segment + 1}
	return s.end, s.close()
}

// close lets go of the last segment.
func (s *spool) close() error {
	if s.f == nil {
		return nil
	}
	f := s.f
	s.f, s.fresh = nil, false
	return f.Close()
}
