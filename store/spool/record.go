package spool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// A record in the spool is a head and a payload. The head is a mark, the payload's length, a CRC32C
// over length, kind and payload, and the kind. Behind damaged bytes a reader looks for the next
// mark and goes on there.
const (
	frameMark = "\xf5pr\n"
	frameHead = len(frameMark) + 4 + 4 + 1
	frameMost = 1 << 30 // more than what is held in memory for writing
)

// The kinds of records that are the log's own. All others are the writer's.
const (
	KindHead = 'H' // the head of a segment: JSON of segmentHead
	KindEnd  = 'N' // the end of what was written at once: the sequence number that it came to
)

var (
	// ErrDamaged says that a record is not what its checksum promises.
	ErrDamaged = errors.New("a damaged record")
	errShort   = errors.New("a record that is not whole")
)

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) } // the standard library keeps it

// AppendRecord writes a record of a kind, whose payload fill appends.
func AppendRecord(b []byte, kind byte, fill func(b []byte) []byte) []byte {
	at := len(b)
	b = append(b, frameMark...)
	return seal(fill(append(b, 0, 0, 0, 0, 0, 0, 0, 0, kind)), at)
}

// seal ends the record that began at an offset.
func seal(b []byte, at int) []byte {
	head := b[at+len(frameMark):]
	size := uint32(len(b) - at - frameHead) //nolint:gosec // bounded by what is taken in
	binary.LittleEndian.PutUint32(head, size)
	binary.LittleEndian.PutUint32(head[4:], frameSum(b[at:]))
	return b
}

// appendEnd writes the record that ends what is written at once.
func appendEnd(b []byte, seq int64) []byte {
	return AppendRecord(b, KindEnd, func(b []byte) []byte {
		return binary.LittleEndian.AppendUint64(b, uint64(seq)) //nolint:gosec // it only grows from 0
	})
}

// readEnd reads its payload.
func readEnd(payload []byte) (seq int64, err error) {
	if len(payload) != 8 {
		return 0, ErrDamaged
	}
	return int64(binary.LittleEndian.Uint64(payload)), nil //nolint:gosec // see appendEnd
}

func frameSum(frame []byte) uint32 {
	const size = len(frameMark)
	sum := crc32.Update(0, castagnoli(), frame[size:size+4])
	return crc32.Update(sum, castagnoli(), frame[size+8:])
}

// readFrame reads the record that b begins with. errShort wants more bytes, ErrDamaged says that
// this is none.
func readFrame(b []byte) (kind byte, payload []byte, size int, err error) {
	if m := min(len(b), len(frameMark)); string(b[:m]) != frameMark[:m] {
		return 0, nil, 0, ErrDamaged
	}
	if len(b) < frameHead {
		return 0, nil, 0, errShort
	}
	n := binary.LittleEndian.Uint32(b[len(frameMark):])
	if n > frameMost {
		return 0, nil, 0, ErrDamaged
	}
	size = frameHead + int(n)
	if len(b) < size {
		return 0, nil, size, errShort
	}
	if frameSum(b[:size]) != binary.LittleEndian.Uint32(b[len(frameMark)+4:]) {
		return 0, nil, 0, ErrDamaged
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
