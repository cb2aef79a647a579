package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	segmentBytes = 64 << 20
	ballastBytes = 1 << 20
	bufferBytes  = 4 << 20 // a write's buffer is used again unless it is larger
	roomy        = 8 << 20 // a larger segment is worth leaving once it is read
	version      = 1       // of the format
	// Ballast is the name of the file that keeps a place on the disk.
	Ballast = "ballast"
)

var (
	// ErrNewer is answered for a log that a later release wrote.
	ErrNewer = errors.New("the spool was written by a newer release of precept")
	// ErrQuota says that the log may not grow any more.
	ErrQuota = errors.New("the spool has reached limits.spool_bytes")
)

// segmentHead is the first record of a segment. Seq is the last sequence number before it. By that
// a reader knows how much the segments before it held, also when they are damaged or gone.
type segmentHead struct {
	Version int    `json:"version"`
	Spool   string `json:"spool"` // the log's name, by which segments of another log are known
	Seq     int64  `json:"admitted"`
}

// Options are what a log is made of.
type Options struct {
	Quota   int64     // the most bytes that all segments may take
	Now     time.Time // names a log that is new
	Segment int64     // bytes of a segment; 0: 64 MiB
	// Count says how many sequence numbers a record takes, 0 for one that it cannot read. nil: each
	// record takes one.
	Count func(kind byte, payload []byte) int64
}

// Log is a write-ahead log. It is safe for concurrent use, but for Keep and the methods that delete
// something: those belong to one goroutine.
type Log struct {
	dir   string
	name  string
	boot  string // see bootID
	count func(kind byte, payload []byte) int64
	most  int64 // bytes of a segment
	quota int64

	mu      sync.Mutex // of what follows; whoever holds it waits for the disk at most
	f       *os.File   // the last segment, nil while there is none
	end     Place      // behind the last record
	seq     int64      // the last sequence number
	bytes   int64      // of all segments
	buf     []byte     // of the last write, for the next one
	fresh   bool       // the next write begins a segment: the last one must not be appended to
	ballast bool       // the file is there

	kept kept // what Keep wrote last; Keep's alone
}

// Open opens the log of a directory, or makes one, and returns the checkpoint from which reading
// goes on. It reads no more than it needs to find the end of the log: a start must not wait for a
// backlog.
func Open(dir string, o Options) (*Log, Checkpoint, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, Checkpoint{}, fmt.Errorf("make the spool: %w", err)
	}
	segs, err := segments(dir)
	if err != nil {
		return nil, Checkpoint{}, err
	}
	c, damaged, err := readCursor(dir, segs)
	if err != nil {
		return nil, Checkpoint{}, err
	}
	if damaged {
		err := os.Rename(filepath.Join(dir, cursorName), filepath.Join(dir, damagedCursor))
		if err != nil {
			return nil, Checkpoint{}, fmt.Errorf("set a damaged cursor aside: %w", err)
		}
	}
	if c.Spool == "" {
		c.Spool = strconv.FormatInt(o.Now.UnixNano(), 36)
	}
	l := newLog(dir, c.Spool, o)
	for _, seg := range segs {
		l.bytes += seg.size
	}
	from := c.delivered()
	l.end, l.seq = from.At, max(c.Seq, from.Seq)
	if err := l.resume(segs, c.End); err != nil {
		return nil, Checkpoint{}, err
	}
	if err := l.tryOut(); err != nil {
		return nil, Checkpoint{}, errors.Join(err, l.Close())
	}
	_ = l.makeBallast() // tried again before each write
	return l, Checkpoint{Epoch: c.Epoch, Delivered: from, Safe: c.Safe}, nil
}

func newLog(dir, name string, o Options) *Log {
	l := &Log{dir: dir, name: name, boot: bootID(), count: o.Count, most: o.Segment, quota: o.Quota}
	if l.most == 0 {
		l.most = segmentBytes
	}
	if l.count == nil {
		l.count = func(byte, []byte) int64 { return 1 }
	}
	return l
}

// tryOut makes a file, so that a directory in which none can be made is found out at the start. It
// removes that file, and what a crash left of a checkpoint that was being written.
func (l *Log) tryOut() error {
	f, err := os.CreateTemp(l.dir, halfCursor)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return l.failed(err)
	}
	return l.dropHalves()
}

// Append writes the records that fill appends to a buffer: all of them or none. They take n
// sequence numbers. It returns the place behind them when they are on the disk.
func (l *Log) Append(n int64, fill func(b []byte) []byte) (end Place, err error) {
	return l.append(l.quota, n, fill)
}

// AppendOver is Append for what must be kept although the quota is reached: it may exceed that by
// the size of a segment.
func (l *Log) AppendOver(n int64, fill func(b []byte) []byte) (end Place, err error) {
	return l.append(l.quota+l.most, n, fill)
}

func (l *Log) append(quota, n int64, fill func(b []byte) []byte) (end Place, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := appendEnd(fill(l.buf[:0]), l.seq+n)
	if l.buf = b; cap(b) > bufferBytes {
		l.buf = nil
	}
	if err = l.write(b, quota); err == nil {
		l.seq += n
	}
	return l.end, err
}

// write appends bytes behind the last ones, all or nothing.
func (l *Log) write(b []byte, quota int64) error {
	// On a full disk the ballast's room is kept for the reader: nothing but reading empties the
	// log.
	if err := l.makeBallast(); Full(err) {
		return l.failed(err)
	}
	if l.bytes+int64(len(b)) > quota {
		return ErrQuota
	}
	if l.f == nil || l.fresh || l.end.Offset+int64(len(b)) > l.most {
		if err := l.begin(); err != nil {
			return l.failed(err)
		}
	}
	_, err := l.f.WriteAt(b, l.end.Offset)
	if err == nil {
		err = datasync(l.f)
	}
	if err != nil {
		if e := l.f.Truncate(l.end.Offset); e != nil {
			l.fresh = true // half a record stands at the end, which the reader steps over
		}
		return l.failed(err)
	}
	l.end.Offset += int64(len(b))
	l.bytes += int64(len(b))
	return nil
}

func (l *Log) failed(err error) error { return fmt.Errorf("write the spool: %w", err) }

// begin makes the next segment, and lets go of the last one.
func (l *Log) begin() error {
	next := Place{Segment: max(l.end.Segment, 1)}
	if l.f != nil || l.end.Offset > 0 {
		next.Segment++
	}
	head, err := json.Marshal(segmentHead{Version: version, Spool: l.name, Seq: l.seq})
	if err != nil {
		return err
	}
	frame := AppendRecord(nil, KindHead, func(b []byte) []byte { return append(b, head...) })
	open := func() (*os.File, error) {
		return os.OpenFile(segment{n: next.Segment}.path(l.dir), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	}
	f, err := open()
	for errors.Is(err, os.ErrExist) { // there is one that no checkpoint knows of
		next.Segment++
		f, err = open()
	}
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(frame, 0); err == nil {
		err = errors.Join(f.Sync(), syncDir(l.dir))
	}
	if err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	err = l.close()
	next.Offset = int64(len(frame))
	l.f, l.end, l.fresh = f, next, false
	l.bytes += next.Offset
	return err
}

// Rotate lets the next write begin a segment: nothing that comes now stands beside what is there.
func (l *Log) Rotate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fresh = true
}

// Leave moves the end behind the last segment, which can be deleted then when it is read. The next
// write makes the next segment: on a full disk there may be no room for it now. It returns the new
// end.
func (l *Log) Leave() (Place, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil && l.end.Offset == 0 {
		return l.end, nil
	}
	l.end = Place{Segment: l.end.Segment + 1}
	return l.end, l.close()
}

// End is the place behind everything, and the sequence number that it came to.
func (l *Log) End() (end Place, seq int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end, l.seq
}

// Skip takes n sequence numbers for what was handed over without being written here.
func (l *Log) Skip(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq += n
}

// Bytes is what the segments take on the disk.
func (l *Log) Bytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

// Grown says that the last segment is so large that it is worth leaving once it is read.
func (l *Log) Grown() bool {
	end, _ := l.End()
	return end.Offset > min(roomy, l.quota/4)
}

// Reader reads the log back.
func (l *Log) Reader() Reader { return Reader{Dir: l.dir, name: l.name} }

// Close lets go of the last segment.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.close()
}

func (l *Log) close() error {
	if l.f == nil {
		return nil
	}
	f := l.f
	l.f, l.fresh = nil, false
	return f.Close()
}

// Full says that an error means a full disk.
func Full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// makeBallast makes the ballast, when there is none.
func (l *Log) makeBallast() error {
	if l.ballast {
		return nil
	}
	path := filepath.Join(l.dir, Ballast)
	if info, err := os.Stat(path); err != nil || info.Size() != ballastBytes {
		if err := os.WriteFile(path, make([]byte, ballastBytes), 0o600); err != nil {
			return errors.Join(err, os.Remove(path)) // what was written of it takes room for nothing
		}
	}
	l.ballast = true
	return nil
}

// DropBallast deletes the ballast, so that whoever reads the log has room to write elsewhere.
func (l *Log) DropBallast() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ballast {
		l.ballast = os.Remove(filepath.Join(l.dir, Ballast)) != nil
	}
}

// PunchHole frees the blocks of a segment before a place in it, where the system can do that. It is
// for a full disk, on which the segment cannot be left: that would take a new one.
func (l *Log) PunchHole(until Place) { punchHole(l.dir, until) }
