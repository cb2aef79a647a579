package outbox

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"

	"precept/internal/file"
)

// The layout of SQLite's write-ahead log: a header, then frames of a head and a page
// (sqlite.org/fileformat2.html, 4). The checksum of a frame covers all earlier bytes.
const (
	logHeader = 32
	frameHead = 24
	frameSize = frameHead + pageBytes
)

// logFile is a write-ahead log in memory.
type logFile struct {
	b     []byte
	order binary.ByteOrder // byte order of the words in a checksum
}

// repairLog repairs the checksums of a write-ahead log that is damaged in the middle. SQLite ends
// the log at the first wrong checksum, and would lose every commit after one wrong bit. repairLog
// computes the checksums again. The damaged page is then part of the file, and the checksums of its rows
// show the damage. repairLog does not repair the frames after the last complete transaction, because
// this transaction was never acknowledged.
//
// repairLog reports whether the log was changed. A copy of the damaged log is then stored under the
// path aside.
func repairLog(path, aside string) (changed bool, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || len(b) < logHeader+2*frameSize {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	l := &logFile{b: b, order: binary.LittleEndian}
	if b[3]&1 != 0 {
		l.order = binary.BigEndian
	}
	frames, salt := l.frames()
	if frames == 0 {
		return false, nil
	}
	first, last := l.damage(frames)
	if first < 0 || !l.endsBefore(first, last) {
		return false, nil
	}
	repaired := &logFile{b: append([]byte(nil), b[:logHeader+first*frameSize]...), order: l.order}
	if first == 0 { // the header may be damaged
		repaired.repairHeader(salt)
	}
	for i := first; i <= last; i++ {
		f := l.frame(i)
		if string(f[8:16]) != string(salt) || binary.BigEndian.Uint32(f) == 0 {
			continue // the frame's head is damaged, so its page is unknown
		}
		repaired.b = append(repaired.b, f...)
		repaired.seal((len(repaired.b)-logHeader)/frameSize - 1)
	}
	return true, errors.Join(file.Write(aside, 0o600, b), file.Write(path, 0o600, repaired.b))
}

func (l *logFile) frame(i int) []byte { return l.b[logHeader+i*frameSize:][:frameSize] }

// frames counts the frames of the newest generation of the log, and returns their salt. Frames of
// earlier generations have another salt.
func (l *logFile) frames() (n int, salt []byte) {
	all := (len(l.b) - logHeader) / frameSize
	salt = l.b[16:24]
	if f := l.frame(0)[8:16]; string(f) != string(salt) && string(f) == string(l.frame(1)[8:16]) {
		salt = f // the salt in the header is damaged
	}
	for i := range all {
		if string(l.frame(i)[8:16]) == string(salt) {
			n = i + 1
		}
	}
	return n, salt
}

// damage returns the first frame with a wrong checksum, or -1, and the last frame with a right checksum
// that ends a transaction. If the checksum of the header is wrong, first is 0.
func (l *logFile) damage(frames int) (first, last int) {
	first, last = -1, -1
	for i := range frames {
		a, b := l.sum(i)
		right := a == binary.BigEndian.Uint32(l.frame(i)[16:]) && b == binary.BigEndian.Uint32(l.frame(i)[20:])
		if !right && first < 0 {
			first = i
		}
		if right && l.commits(i) {
			last = i
		}
	}
	if a, b := l.add(0, 0, l.b[:24]); first != 0 && (a != binary.BigEndian.Uint32(l.b[24:]) || b != binary.BigEndian.Uint32(l.b[28:])) {
		first = 0
	}
	return first, last
}

func (l *logFile) commits(i int) bool { return binary.BigEndian.Uint32(l.frame(i)[4:]) != 0 }

// endsBefore reports whether a transaction ends between a damaged frame and the last frame. The
// damaged frame is then no remainder of an unacknowledged transaction.
func (l *logFile) endsBefore(damaged, last int) bool {
	for i := damaged; i < last; i++ {
		if l.commits(i) {
			return true
		}
	}
	return false
}

// sum returns the two words of the right checksum of a frame, computed from the checksum of the
// previous frame.
func (l *logFile) sum(i int) (a, b uint32) {
	before := l.b[24:32]
	if i > 0 {
		before = l.frame(i - 1)[16:24]
	}
	a, b = binary.BigEndian.Uint32(before), binary.BigEndian.Uint32(before[4:])
	a, b = l.add(a, b, l.frame(i)[:8])
	return l.add(a, b, l.frame(i)[frameHead:])
}

// add returns the two words of a checksum after the bytes p.
func (l *logFile) add(a, b uint32, p []byte) (uint32, uint32) {
	for ; len(p) >= 8; p = p[8:] {
		a += l.order.Uint32(p) + b
		b += l.order.Uint32(p[4:]) + a
	}
	return a, b
}

// seal writes the right checksum into a frame.
func (l *logFile) seal(i int) {
	a, b := l.sum(i)
	binary.BigEndian.PutUint32(l.frame(i)[16:], a)
	binary.BigEndian.PutUint32(l.frame(i)[20:], b)
}

// repairHeader writes the header that SQLite expects.
func (l *logFile) repairHeader(salt []byte) {
	h := l.b[:logHeader]
	binary.BigEndian.PutUint32(h, 0x377f0682) // magic number of a log with little-endian checksums
	l.order = binary.LittleEndian
	binary.BigEndian.PutUint32(h[4:], 3007000) // version of the format
	binary.BigEndian.PutUint32(h[8:], pageBytes)
	copy(h[16:24], salt)
	a, b := l.add(0, 0, h[:24])
	binary.BigEndian.PutUint32(h[24:], a)
	binary.BigEndian.PutUint32(h[28:], b)
}
