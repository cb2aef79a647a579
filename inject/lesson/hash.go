package lesson

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"slices"
	"strconv"
)

// Hash returns a SHA-256, in hex, of the text that a model sees and of the match conditions. The order of lists does
// not matter. Counts, state and description are excluded, because a change to them needs no new approval or
// measurement.
func (l *Lesson) Hash() string {
	h := sha256.New()
	t := &l.Trigger
	for _, s := range []string{"lesson/1", l.Slug, l.Title, l.Advice} {
		hashString(h, s)
	}
	for _, list := range [][]string{t.Tags, t.Keywords, t.NotKeywords, t.Tools, t.ErrorPatterns, t.Models} {
		hashList(h, list)
	}
	if len(t.ErrorKinds) > 0 { // only if present, so that an approval from before this field existed stays valid
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
	if l.Scope != (Scope{}) { // an approval for one agent must not approve the lesson for all agents
		hashList(h, []string{"tenant " + l.Scope.Tenant, "agent " + l.Scope.Agent})
	}
	if t.ByLikeness { // with likeness, more texts match than those with the approved phrases
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

// hashString adds the length of s and then s to a hash. Without the length, different lists could add the same bytes.
func hashString(h hash.Hash, s string) {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(s)))
	h.Write(n[:])
	h.Write([]byte(s))
}
