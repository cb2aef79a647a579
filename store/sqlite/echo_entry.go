package sqlite

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
)

const (
	echoesPerKey = 4
	entrySize    = 24
)

// entry says that a key went by in a session, and when.
type entry struct {
	key, at, sid int64
}

func compareEntries(a, b entry) int {
	return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(b.at, a.at), cmp.Compare(b.sid, a.sid))
}

// fold sorts the entries by key, newest first, and keeps of each key the newest few sessions, each
// once. A run is thus bounded for every key, also for one that goes by in each session.
func fold(list []entry) []entry {
	slices.SortFunc(list, compareEntries)
	out, first := list[:0], 0 // first is where the current key begins in out
	for _, e := range list {
		if len(out) == 0 || out[len(out)-1].key != e.key {
			first = len(out)
		}
		same := out[first:]
		if len(same) == echoesPerKey || slices.ContainsFunc(same, func(o entry) bool { return o.sid == e.sid }) {
			continue
		}
		out = append(out, e)
	}
	return out
}

// withKey finds a key in folded entries.
func withKey(list []entry, key int64) []entry {
	i, _ := slices.BinarySearchFunc(list, key, func(e entry, k int64) int { return cmp.Compare(e.key, k) })
	j := i
	for j < len(list) && list[j].key == key {
		j++
	}
	return list[i:j]
}

func packEntries(list []entry) []byte {
	b := make([]byte, 0, len(list)*entrySize)
	for _, e := range list {
		for _, n := range [...]int64{e.key, e.at, e.sid} {
			b = binary.LittleEndian.AppendUint64(b, uint64(n))
		}
	}
	return b
}

func unpackEntries(list []entry, b []byte) ([]entry, error) {
	if len(b)%entrySize != 0 {
		return nil, fmt.Errorf("%w: echoes of %d bytes", ErrCorrupt, len(b))
	}
	for ; len(b) > 0; b = b[entrySize:] {
		n := func(i int) int64 { return int64(binary.LittleEndian.Uint64(b[i:])) }
		list = append(list, entry{n(0), n(8), n(16)})
	}
	return list, nil
}
