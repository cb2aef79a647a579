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

// RankSize is the length of a rank in bytes.
const RankSize = rankTime + sha256.Size

// Encode returns the stored form of the entry. A time has one text form, so that a repeated entry
// has identical bytes.
func (e *Entry) Encode() ([]byte, error) {
	stored := *e
	stored.At = e.At.UTC().Round(0)
	return json.Marshal(&stored)
}

// Rank identifies a version of an entry: the time, followed by the hash of the content without the time.
// Supersedes compares ranks, so that a store can compare two versions without their JSON.
func (e *Entry) Rank() ([]byte, error) {
	content := *e
	content.At, content.Hash = time.Time{}, ""
	encoded, err := json.Marshal(&content)
	if err != nil {
		return nil, err
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(e.At.Unix())^1<<63)
	b = binary.BigEndian.AppendUint32(b, uint32(e.At.Nanosecond())) //nolint:gosec // below 10^9
	sum := sha256.Sum256(encoded)
	return append(b, sum[:]...), nil
}

// rankTime is the length of the time in a rank, in bytes.
const rankTime = 8 + 4

// Supersedes reports whether the version of an entry with the first rank replaces the stored version with
// the second rank. Of equal contents the earlier version is kept: a repeated delivery is no new opinion, and
// must not replace later feedback of the same rater. Of different contents the later version is kept, and at
// equal times the version with the greater hash. The order of arrival matters only for contents of one id that
// return: of the contents A, B and A, sent in this order, a store without B at the second A keeps the first A,
// and then B.
func Supersedes(rank, stored []byte) bool {
	order := bytes.Compare(rank, stored)
	if bytes.Equal(rank[rankTime:], stored[rankTime:]) {
		return order < 0
	}
	return order > 0
}

// Sort sorts entries by time, then by id.
func Sort(set []Entry) {
	slices.SortFunc(set, func(a, b Entry) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID))
	})
}
