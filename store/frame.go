package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// A record in the spool: a mark, the length of what follows the head, CRC32C over length, kind and
// payload, the kind, the payload. The mark is where a reader finds its feet again behind a damaged
// stretch.
const (
	frameMark = "\xf5pr\n"
	frameHead = len(frameMark) + 4 + 4 + 1
	frameMost = 1 << 30 // more than what is held in memory for writing
)

// The kinds of records.
const (
	frameSegment  = 'H' // the head of a segment: JSON of segmentHead
	frameRun      = 'O' // a process began to write; what was under way before it never ended
	frameBegun    = 'B' // a turn is under way: the stub of its exchange, JSON
	frameExchange = 'E' // a turn is over: flag whether begun, the exchange's id, its two parts
	frameVoid     = 'V' // a turn that was begun is over and nothing of it is kept: JSON
	frameRow      = 'R' // a session's row
	frameEchoes   = 'K' // echoes, binary
	frameSignal   = 'S' // implicit feedback: JSON
	frameDropped  = 'D' // exchanges dropped since the last such record, by reason: JSON
	frameAdmitted = 'N' // the end of what was written at once: how many exchanges were admitted up to here
)

var (
	errFrame = errors.New("a damaged record")
	errShort = errors.New("a record that is not whole")
)

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) } // the standard library keeps it

// openFrame begins a record in b; closeFrame, given the offset where it began, ends it.
func openFrame(b []byte, kind byte) []byte {
	b = append(b, frameMark...)
	return append(b, 0, 0, 0, 0, 0, 0, 0, 0, kind)
}

func closeFrame(b []byte, at int) []byte {
	head := b[at+len(frameMark):]
	binary.LittleEndian.PutUint32(head, uint32(len(b)-at-frameHead)) //nolint:gosec // bounded by what is taken in
	binary.LittleEndian.PutUint32(head[4:], frameSum(b[at:]))
	return b
}

func frameSum(frame []byte) uint32 {
	const size = len(frameMark)
	sum := crc32.Update(0, castagnoli(), frame[size:size+4])
	return crc32.Update(sum, castagnoli(), frame[size+8:])
}

// readFrame reads the record that b begins with. errShort wants more bytes, errFrame says that this
// is none.
func readFrame(b []byte) (kind byte, payload []byte, size int, err error) {
	if m := min(len(b), len(frameMark)); string(b[:m]) != frameMark[:m] {
		return 0, nil, 0, errFrame
	}
	if len(b) < frameHead {
		return 0, nil, 0, errShort
	}
	n := binary.LittleEndian.Uint32(b[len(frameMark):])
	if n > frameMost {
		return 0, nil, 0, errFrame
	}
	size = frameHead + int(n)
	if len(b) < size {
		return 0, nil, size, errShort
	}
	if frameSum(b[:size]) != binary.LittleEndian.Uint32(b[len(frameMark)+4:]) {
		return 0, nil, 0, errFrame
	}
	return b[frameHead-1], b[frameHead:size], size, nil
}

// nextFrame is the offset of the next thing in b that may be the beginning of a record, len(b) when
// there is none.
func nextFrame(b []byte) int {
	if i := bytes.Index(b, []byte(frameMark)); i >= 0 {
		return i
	}
	for n := min(len(b), len(frameMark)-1); n > 0; n-- { // a mark may stand across the edge
		if string(b[len(b)-n:]) == frameMark[:n] {
			return len(b) - n
		}
	}
	return len(b)
}
