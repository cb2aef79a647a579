package sqlite

import (
	"cmp"
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"slices"
)

const (
	blockEntries = 339 // a block fills a page of 8 KiB
	bloomBits    = 12  // an entry; with five probes three look-ups in a thousand read a block in vain
	bloomProbes  = 5
	blocksPerRun = 20 // bits of a block's number within its run
)

// run is what memory holds of a sorted run: about two bytes an entry.
type run struct {
	id     int64
	newest int64
	fences []int64 // the first key of each block
	bloom  bloom
}

func newRun(id int64, list []entry) *run {
	r := &run{id: id, bloom: make(bloom, (len(list)*bloomBits+63)/64)}
	for i, e := range list {
		if i%blockEntries == 0 {
			r.fences = append(r.fences, e.key)
		}
		r.newest = max(r.newest, e.at)
		r.bloom.add(e.key)
	}
	return r
}

// blocks calls fn with the first and the last block that may hold the key: a key's few entries may
// straddle two.
func (r *run) blocks(key int64) (first, last int) {
	first, _ = slices.BinarySearch(r.fences, key)
	last = first
	for last+1 < len(r.fences) && r.fences[last+1] == key {
		last++
	}
	if first == len(r.fences) || r.fences[first] != key {
		last = first - 1
	}
	return max(first-1, 0), max(last, 0)
}

// find reads a key's entries; none when the run was dropped meanwhile.
func (r *run) find(c *conn, key int64, list []entry) ([]entry, error) {
	if len(r.fences) == 0 || !r.bloom.has(key) {
		return list, nil
	}
	first, last := r.blocks(key)
	for block := first; block <= last; block++ {
		_, err := c.one("SELECT v FROM echo_blocks WHERE id = ?", func(row []driver.Value) error {
			all, err := unpackEntries(nil, blob(row[0]))
			list = append(list, withKey(all, key)...)
			return err
		}, r.id<<blocksPerRun|int64(block))
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// store writes the run.
func (r *run) store(c *conn, list []entry) error {
	block := int64(0)
	for part := range slices.Chunk(list, blockEntries) {
		if _, err := c.exec("INSERT INTO echo_blocks(id, v) VALUES(?, ?)", r.id<<blocksPerRun|block, packEntries(part)); err != nil {
			return err
		}
		block++
	}
	_, err := c.exec("INSERT INTO echo_runs(run, newest, fences, bloom) VALUES(?, ?, ?, ?)",
		r.id, r.newest, packInts(r.fences), packInts(r.bloom))
	return err
}

func dropRun(c *conn, id int64) error {
	_, err := c.exec("DELETE FROM echo_blocks WHERE id >= ? AND id < ?", id<<blocksPerRun, (id+1)<<blocksPerRun)
	if err == nil {
		_, err = c.exec("DELETE FROM echo_runs WHERE run = ?", id)
	}
	return err
}

// loadRuns reads what memory holds, oldest run first.
func loadRuns(c *conn) (list []*run, err error) {
	err = c.query("SELECT run, newest, fences, bloom FROM echo_runs ORDER BY run", func(row []driver.Value) error {
		r := &run{id: integer(row[0]), newest: integer(row[1]), fences: unpackInts[int64](blob(row[2])), bloom: unpackInts[uint64](blob(row[3]))}
		if len(r.fences) > 0 && len(r.bloom) == 0 {
			return fmt.Errorf("%w: run %d of echoes has no filter", ErrCorrupt, r.id)
		}
		list = append(list, r)
		return nil
	})
	return list, err
}

// bloom says of most keys that are not in a run that they are not. The keys are mixed already
// (echoKey), so that their halves serve as hashes.
type bloom []uint64

func (b bloom) each(key int64, fn func(word, bit uint64) bool) {
	h, step := uint64(key)>>32, uint64(key)|1
	for range bloomProbes {
		n := h % (64 * uint64(len(b)))
		if !fn(n/64, 1<<(n%64)) {
			return
		}
		h += step
	}
}

func (b bloom) add(key int64) {
	b.each(key, func(word, bit uint64) bool { b[word] |= bit; return true })
}

func (b bloom) has(key int64) bool {
	found := true
	b.each(key, func(word, bit uint64) bool { found = b[word]&bit != 0; return found })
	return found
}

func packInts[T int64 | uint64](list []T) []byte {
	b := make([]byte, 0, 8*len(list))
	for _, n := range list {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return b
}

func unpackInts[T int64 | uint64](b []byte) []T {
	list := make([]T, 0, len(b)/8)
	for ; len(b) >= 8; b = b[8:] {
		list = append(list, T(binary.LittleEndian.Uint64(b)))
	}
	return list
}

// newestFirst orders the entries of one key that were found in several places.
func newestFirst(list []entry) {
	slices.SortStableFunc(list, func(a, b entry) int { return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(b.sid, a.sid)) })
}
