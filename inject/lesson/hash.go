package lesson

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"slices"
	"strconv"
)

// Hash computes the content hash, a SHA-256 over the text for the model and the triggers. The text is the slug, the
// title and the advice. The triggers are tags, targets, keywords, error patterns, kinds, tools, models and scope, with
// each list sorted. Counts, state and description are not part of the hash. A change of these fields needs no new
// approval, and the experiment does not begin a new measurement.
func (l *Lesson) Hash() string {
	h := sha256.New()
	t := &l.Trigger
	for _, s := range []string{"lesson/1", l.Slug, l.Title, l.Advice} {
		hashString(h, s)
	}
	for _, list := range [][]string{t.Tags, t.Keywords, t.NotKeywords, t.Tools, t.ErrorPatterns, t.Models} {
		hashList(h, list)
	}
	if len(t.ErrorKinds) > 0 { // only if present, so that the approved hash of an older lesson without kinds stays valid
		hashList(h, append([]string{"error_kinds"}, t.ErrorKinds...))
	}
	if len(t.RequestKinds) > 0 {
		hashList(h, append([]string{"request_kinds"}, t.RequestKinds...))
	}
	targets := make([]string, 0, len(t.Targets))
	for _, g := range t.Targets {
		targets = append(targets, g.Operator+"\x00"+g.Role+"\x00"+g.Skill)
	}
	hashList(h, targets)
	if l.Scope != (Scope{}) { // an approval for one agent does not approve the lesson for all
		hashList(h, []string{"tenant " + l.Scope.Tenant, "agent " + l.Scope.Agent})
	}
	if t.Like { // the lesson then matches more texts than its approved phrases
		hashList(h, []string{"like"})
	}
	return hex.EncodeToString(h.Sum(nil))
}

func hashList(h hash.Hash, list []string) {
	list = slices.Sorted(slices.Values(list))
	hashString(h, strconv.Itoa(len(list)))
	for _, s := range list {
		hashString(h, s)
	}
}

// hashString writes the length before the text, so that different lists of strings never give
// identical bytes.
func hashString(h hash.Hash, s string) {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(s)))
	h.Write(n[:])
	h.Write([]byte(s))
}
