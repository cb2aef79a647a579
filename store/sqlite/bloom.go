package sqlite

import (
	"encoding/binary"
	"sync/atomic"

	"precept/internal/session"
)

// bloom remembers which sessions may be in the file, so that the first request of a new one need
// not ask. It is a Bloom filter: it may say yes for one that is not there, never no for one that
// is.
type bloom struct {
	bits [bloomBits / 64]atomic.Uint64
}

const (
	bloomBits = 1 << 22 // 512 KiB; of 400,000 sessions it takes one in fifty for known
	bloomMost = 400_000 // a file with more of them at its opening is asked each time
)

// places are four bits out of an id, which is a hash.
func places(id session.ID) [4]uint32 {
	const mask = bloomBits - 1
	a, b := binary.LittleEndian.Uint64(id[:8]), binary.LittleEndian.Uint64(id[8:])
	return [4]uint32{uint32(a & mask), uint32(a >> 32 & mask), uint32(b & mask), uint32(b >> 32 & mask)}
}

func (h *bloom) add(id session.ID) {
	if h == nil {
		return
	}
	for _, p := range places(id) {
		h.bits[p/64].Or(1 << (p % 64))
	}
}

// may says whether the session may be in the file.
func (h *bloom) may(id session.ID) bool {
	if h == nil {
		return true
	}
	for _, p := range places(id) {
		if h.bits[p/64].Load()&(1<<(p%64)) == 0 {
			return false
		}
	}
	return true
}

// loadBloom reads the ids of a file that nobody else writes, nil of one with too many.
func loadBloom(c *conn) *bloom {
	if c.number("SELECT n FROM totals WHERE name = '"+totalSessions+"'") > bloomMost {
		return nil
	}
	h := &bloom{}
	for r := range c.rows("SELECT id FROM sessions") {
		var id session.ID
		r.scan(&id)
		h.add(id)
	}
	return h
}
