package session

import (
	"strings"

	"precept/internal/wire"
)

// Bounds of the work on one request.
const (
	maxTrail = 32 // echoes looked at, newest first
	maxLook  = 96 // items looked at for them
	maxBack  = 8  // items before the new part in which something unknown is looked for
	maxFront = 16 // items looked at for the first words
	maxWords = 512
)

// opening is the first thing that the user says in a request that shows its beginning.
func opening(req *wire.Request) (it *wire.Item, ok bool) {
	if req.Delta {
		return it, false
	}
	for i := range min(req.Len(), maxFront) {
		if req.Role(i) != wire.RoleUser { // the system prompt may be long
			continue
		}
		if it = req.Item(i); it.Words != "" {
			return it, true
		}
	}
	return it, false
}

// firstWords is a hash of it: what a conversation is about. It is 0 where there is none.
func firstWords(req *wire.Request) uint64 {
	it, ok := opening(req)
	if !ok {
		return 0
	}
	// The ends and the length are enough; a pasted book need not be hashed in every turn.
	w := it.Words
	h := addText(noText, w[:min(len(w), maxWords)])
	return addText(h, w[max(0, len(w)-maxWords):]) + uint64(len(w))
}

// about is what a conversation is about, in whose run.
func (sc Scope) about(req *wire.Request) uint64 {
	words := firstWords(req)
	if sc.Run == "" {
		return words
	}
	return addText(words^noText, sc.Run)
}

// onlyText is the text of a request that is one message and offers no tools, "" for another one.
func onlyText(req *wire.Request) string {
	last := req.Len() - 1
	if req.Delta || len(req.Tools) > 0 || last < 0 || last >= maxFront || req.Role(last) != wire.RoleUser {
		return ""
	}
	for i := range last {
		if req.Role(i) != wire.RoleSystem {
			return ""
		}
	}
	return strings.TrimSpace(req.Item(last).Text)
}

// itemKey tells items of a new part apart: results by the call they answer, the rest by content.
func itemKey(req *wire.Request, i int) uint64 {
	it := req.Item(i)
	if len(it.Results) == 0 || it.Words != "" || wire.Unnamed(it.Results[0].CallID) {
		return req.Hash(i)
	}
	var sum uint64
	for _, res := range it.Results {
		sum = sum*31 + hashText(res.CallID)
	}
	return sum
}

// hashText is FNV-1a: it is kept in records, so it must be the same in every process.
func hashText(s string) uint64 { return addText(noText, s) }

// noText is the hash of nothing, addText goes on from h with s. It is hash/fnv's New64a without its
// copy of every string.
const noText uint64 = 14695981039346656037

func addText(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}
