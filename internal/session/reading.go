package session

import (
	"strings"

	"precept/internal/wire"
)

const (
	maxTrail         = 32  // echoes looked up per request, newest first
	maxSearchedItems = 96  // items searched per request
	maxItemsBefore   = 8   // items before the new part, searched for unknown content
	maxFirstItems    = 16  // items from the start, searched for the user's first words
	maxHashedBytes   = 512 // hashed bytes at each end of the first words
)

// firstUserItem returns the item with the user's first words, if the request contains the conversation's beginning.
func firstUserItem(req *wire.Request) (it *wire.Item, ok bool) {
	if req.Delta {
		return it, false
	}
	for i := range min(req.Len(), maxFirstItems) {
		if req.Role(i) != wire.RoleUser { // do not decode the system prompt, which may be long
			continue
		}
		if it = req.Item(i); it.UserText != "" {
			return it, true
		}
	}
	return it, false
}

// OpeningHash returns a hash over the user's first words, or 0 if the request does not contain them.
func OpeningHash(req *wire.Request) uint64 {
	it, ok := firstUserItem(req)
	if !ok {
		return 0
	}
	// Both ends and the length are enough, so a long pasted text is not hashed every turn.
	w := it.UserText
	h := addText(emptyHash, w[:min(len(w), maxHashedBytes)])
	return addText(h, w[max(0, len(w)-maxHashedBytes):]) + uint64(len(w))
}

// topic returns a hash over the user's first words and the run, which distinguishes conversations with the same ids.
func (sc Scope) topic(req *wire.Request) uint64 {
	words := OpeningHash(req)
	if sc.Run == "" {
		return words
	}
	return addText(words^emptyHash, sc.Run)
}

// onlyText returns the text of a request that has no tools and, apart from system prompts, a single message. For any
// other request, the result is "".
func onlyText(req *wire.Request) string {
	last := req.Len() - 1
	if req.Delta || len(req.Tools) > 0 || last < 0 || last >= maxFirstItems || req.Role(last) != wire.RoleUser {
		return ""
	}
	for i := range last {
		if req.Role(i) != wire.RoleSystem {
			return ""
		}
	}
	return strings.TrimSpace(req.Item(last).Text)
}

// itemKey returns an item's key: a hash over the call ids if the item has tool results and no words from the user, and
// otherwise the content hash.
func itemKey(req *wire.Request, i int) uint64 {
	it := req.Item(i)
	if len(it.Results) == 0 || it.UserText != "" || wire.IsGeneratedID(it.Results[0].CallID) {
		return req.Hash(i)
	}
	var sum uint64
	for _, res := range it.Results {
		sum = sum*31 + hashText(res.CallID)
	}
	return sum
}

// hashText returns a text's FNV-1a hash. Records contain the hash, so every process must compute the same hash.
func hashText(s string) uint64 { return addText(emptyHash, s) }

// emptyHash is the start value for addText. addText computes the same hash as New64a in hash/fnv, without copying the
// string.
const emptyHash uint64 = 14695981039346656037

func addText(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}
