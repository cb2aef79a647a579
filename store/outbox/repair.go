package outbox

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"

	"precept/internal/file"
)

// The sizes in SQLite's write-ahead log, in bytes (sqlite.org/fileformat2.html, section 4). The log is a header and
// frames, each a frame header and a page. A frame's checksum covers all earlier bytes.
const (
	logHeader   = 32
	frameHeader = 24
	frameSize   = frameHeader + pageBytes
)

type logFile struct {
	data      []byte
	byteOrder binary.ByteOrder // in which checksums read the data
}

// repairLog repairs a write-ahead log that is damaged in the middle. SQLite ignores the log from the first wrong
// checksum on, so one wrong bit would lose every later commit. With new checksums SQLite reads the whole log; the row
// checksums then reveal the damage.
//
// Frames after the last complete transaction belong to a transaction that was never acknowledged, and stay unrepaired.
// Before repairLog changes the log, it copies the log to copyPath.
func repairLog(path, copyPath string) (changed bool, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || len(b) < logHeader+2*frameSize {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	l := &logFile{data: b, byteOrder: binary.LittleEndian}
	if b[3]&1 != 0 {
		l.byteOrder = binary.BigEndian
	}
	frames, salt := l.countFrames()
	if frames == 0 {
		return false, nil
	}
	first, last := l.damagedRange(frames)
	if first < 0 || !l.hasCommitBetween(first, last) {
		return false, nil
	}
	repaired := &logFile{data: append([]byte(nil), b[:logHeader+first*frameSize]...), byteOrder: l.byteOrder}
	if first == 0 { // the header might be damaged
		repaired.repairHeader(salt)
	}
	for i := first; i <= last; i++ {
		f := l.frame(i)
		if string(f[8:16]) != string(salt) || binary.BigEndian.Uint32(f) == 0 {
			continue // damaged frame header: the page number is unknown
		}
		repaired.data = append(repaired.data, f...)
		repaired.writeChecksum((len(repaired.data)-logHeader)/frameSize - 1)
	}
	return true, errors.Join(file.Write(copyPath, 0o600, b), file.Write(path, 0o600, repaired.data))
}

func (l *logFile) frame(i int) []byte { return l.data[logHeader+i*frameSize:][:frameSize] }

// countFrames returns the number of frames in the log's newest generation, and that generation's salt. When SQLite
// reuses the log, it starts a new generation with a new salt.
func (l *logFile) countFrames() (n int, salt []byte) {
	all := (len(l.data) - logHeader) / frameSize
	salt = l.data[16:24]
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

// damagedRange returns the first frame with a wrong checksum (0 for the header), and the last frame that ends a
// transaction and has a valid checksum; -1 means none.
func (l *logFile) damagedRange(frames int) (first, last int) {
	first, last = -1, -1
	for i := range frames {
		a, b := l.frameChecksum(i)
		valid := a == binary.BigEndian.Uint32(l.frame(i)[16:]) && b == binary.BigEndian.Uint32(l.frame(i)[20:])
		if !valid && first < 0 {
			first = i
		}
		if valid && l.isCommit(i) {
			last = i
		}
	}
	if a, b := l.addChecksum(0, 0, l.data[:24]); first != 0 && (a != binary.BigEndian.Uint32(l.data[24:]) || b != binary.BigEndian.Uint32(l.data[28:])) {
		first = 0
	}
	return first, last
}

// isCommit reports whether a frame ends a transaction. Only such a frame's header contains the database size.
func (l *logFile) isCommit(i int) bool { return binary.BigEndian.Uint32(l.frame(i)[4:]) != 0 }

// hasCommitBetween reports whether a transaction ends at the damaged frame, or between that frame and the last frame.
// If so, the damaged frame is part of an acknowledged transaction.
func (l *logFile) hasCommitBetween(damaged, last int) bool {
	for i := damaged; i < last; i++ {
		if l.isCommit(i) {
			return true
		}
	}
	return false
}

// frameChecksum computes a frame's checksum (two words) from the previous frame's checksum.
func (l *logFile) frameChecksum(i int) (a, b uint32) {
	before := l.data[24:32]
	if i > 0 {
		before = l.frame(i - 1)[16:24]
	}
	a, b = binary.BigEndian.Uint32(before), binary.BigEndian.Uint32(before[4:])
	a, b = l.addChecksum(a, b, l.frame(i)[:8])
	return l.addChecksum(a, b, l.frame(i)[frameHeader:])
}

// addChecksum adds the bytes p to a checksum, which is the two words a and b.
func (l *logFile) addChecksum(a, b uint32, p []byte) (uint32, uint32) {
	for ; len(p) >= 8; p = p[8:] {
		a += l.byteOrder.Uint32(p) + b
		b += l.byteOrder.Uint32(p[4:]) + a
	}
	return a, b
}

func (l *logFile) writeChecksum(i int) {
	a, b := l.frameChecksum(i)
	binary.BigEndian.PutUint32(l.frame(i)[16:], a)
	binary.BigEndian.PutUint32(l.frame(i)[20:], b)
}

func (l *logFile) repairHeader(salt []byte) {
	h := l.data[:logHeader]
	binary.BigEndian.PutUint32(h, 0x377f0682) // a log with little-endian checksums
	l.byteOrder = binary.LittleEndian
	binary.BigEndian.PutUint32(h[4:], 3007000) // format version
	binary.BigEndian.PutUint32(h[8:], pageBytes)
	copy(h[16:24], salt)
	a, b := l.addChecksum(0, 0, h[:24])
	binary.BigEndian.PutUint32(h[24:], a)
	binary.BigEndian.PutUint32(h[28:], b)
}
