package feedback

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"time"
)

// RankSize is how many bytes a rank has.
const RankSize = 8 + 4 + sha256.Size

// Encode is the entry as stores keep it. One instant has one text, so that an entry that is sent
// twice has the same bytes.
func (e *Entry) Encode() ([]byte, error) {
	kept := *e
	kept.At = e.At.UTC().Round(0)
	return json.Marshal(&kept)
}

// Rank tells which of two versions of an entry stands, in whatever order they arrive: the one whose
// rank is greater, byte by byte. It is the time, and behind it the hash of the encoded entry.
func Rank(at time.Time, encoded []byte) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(at.Unix())^1<<63)
	b = binary.BigEndian.AppendUint32(b, uint32(at.Nanosecond())) //nolint:gosec // below 10^9
	sum := sha256.Sum256(encoded)
	return append(b, sum[:]...)
}

// Sort puts a set of entries in the order in which it is listed: by time, then id.
func Sort(set []Entry) {
	slices.SortFunc(set, func(a, b Entry) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID))
	})
}
