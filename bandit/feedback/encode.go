package feedback

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"time"
)

// RankSize is the length of a rank in bytes: seconds, nanoseconds and a hash.
const RankSize = 8 + 4 + sha256.Size

// Encode returns the entry's stored form. Equal entries have identical bytes.
func (e *Entry) Encode() ([]byte, error) {
	stored := *e
	stored.At = e.At.UTC().Round(0)
	return json.Marshal(&stored)
}

// Repeats reports whether e and the stored entry are equal in all fields except the time and the hash.
func (e *Entry) Repeats(stored *Entry) bool {
	again := *e
	again.At, again.Hash = stored.At, stored.Hash
	text, err := again.Encode() // the encoding escapes a correction's JSON
	if err != nil {
		return false
	}
	storedText, err := stored.Encode()
	return err == nil && bytes.Equal(text, storedText)
}

// Rank returns a sort key for one of an entry's versions. Stores keep the version with the greatest key, compared byte
// by byte, regardless of the order in which the versions arrive.
func Rank(at time.Time, encoded []byte) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(at.Unix())^1<<63)
	b = binary.BigEndian.AppendUint32(b, uint32(at.Nanosecond())) //nolint:gosec // below 10^9
	sum := sha256.Sum256(encoded)
	return append(b, sum[:]...)
}

// Sort sorts entries by time, then by id.
func Sort(set []Entry) {
	slices.SortFunc(set, func(a, b Entry) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID))
	})
}
