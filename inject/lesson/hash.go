package lesson

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"slices"
	"strconv"
)

// Hash computes the content hash: SHA-256 over what the model would see (slug, title, advice) and
// over what makes the lesson fire (tags, targets, keywords, error patterns, tools, models, scope;
// each list sorted, for its order means nothing). Neither counts nor state nor the description in
// prose are in it: they may change without making another arm.
func (l *Lesson) Hash() string {
	h := sha256.New()
	t := &l.Trigger
	for _, s := range []string{"lesson/1", l.Slug, l.Title, l.Advice} {
		hashString(h, s)
	}
	for _, list := range [][]string{t.Tags, t.Keywords, t.NotKeywords, t.Tools, t.ErrorPatterns, t.Models} {
		hashList(h, list)
	}
	targets := make([]string, 0, len(t.Targets))
	for _, g := range t.Targets {
		targets = append(targets, g.Operator+"\x00"+g.Role+"\x00"+g.Skill)
	}
	hashList(h, targets)
	if l.Scope != (Scope{}) { // what was approved for one agent is not approved for all
		hashList(h, []string{"tenant " + l.Scope.Tenant, "agent " + l.Scope.Agent})
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

// hashString writes a length before the text: two different lists of strings never give the same
// bytes.
func hashString(h hash.Hash, s string) {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(s)))
	h.Write(n[:])
	h.Write([]byte(s))
}
