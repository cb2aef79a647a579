package session

import (
	"sync"
)

// stamp is an echo's origin in a session. The two highest bits hold the kind and, for a stampReply, the other bits hold
// the reply's number.
type stamp uint32

// Kinds, weakest evidence first. An echo with stampWeak or stampPast may be a few-shot example in many conversations.
const (
	stampWeak    stamp = 0 << 30 // text or counted id (such as "call_1") in a request
	stampPast    stamp = 1 << 30 // random id in the session's first request
	stampRequest stamp = 2 << 30 // random id in a later request; content from an incomplete reply, or a side request's reply
	stampReply   stamp = 3 << 30 // content from any other reply

	stampKind stamp = 3 << 30 // mask for the kind
)

// owner is a session with an echo key.
type owner struct {
	id    ID
	stamp stamp
}

// index maps echo keys to sessions. It is bounded: new entries overwrite the oldest. An entry needs 32 bytes in
// addition to the map.
type index struct {
	mu   sync.Mutex
	last map[EchoKey]uint32 // slot of the key's newest entry, plus one
	ring ring[indexEntry]
}

type indexEntry struct {
	key   EchoKey
	owner owner
	older uint32 // slot of the key's next older entry, plus one; 0 for none; the slot may be reused
}

// maxOwners is the maximum number of sessions compared per key or per first request.
const maxOwners = 128

func newIndex(entries int) *index {
	return &index{last: make(map[EchoKey]uint32), ring: ring[indexEntry]{limit: entries}}
}

func (x *index) addAll(keys []EchoKey, o owner) (added []EchoKey) {
	for _, k := range keys {
		if x.add(k, o) {
			added = append(added, k)
		}
	}
	return added
}

func (x *index) add(k EchoKey, o owner) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	isNew := true
	x.walk(k, func(e *indexEntry) bool {
		if e.owner.id != o.id {
			return true
		}
		e.owner.stamp = max(e.owner.stamp, o.stamp)
		isNew = false
		return false
	})
	if !isNew {
		return false
	}
	slot := uint32(x.ring.next) + 1 //nolint:gosec // the ring has fewer slots than a uint32 can count
	oldest, full := x.ring.add(indexEntry{key: k, owner: o, older: x.last[k]})
	if full && x.last[oldest.key] == slot {
		delete(x.last, oldest.key)
	}
	x.last[k] = slot
	return true
}

func (x *index) owners(k EchoKey) (list []owner) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.walk(k, func(e *indexEntry) bool {
		list = append(list, e.owner)
		return true
	})
	return list
}

// walk visits a key's entries, newest first, until visit returns false. It also ends at a reused slot, where the key is
// different, or the entry is newer than the previous one.
func (x *index) walk(k EchoKey, visit func(*indexEntry) bool) {
	age := -1
	slot := x.last[k]
	for range maxOwners {
		if slot == 0 {
			return
		}
		e := &x.ring.entries[slot-1]
		entryAge := (x.ring.next - int(slot) + x.ring.limit) % x.ring.limit
		if e.key != k || entryAge <= age || !visit(e) {
			return
		}
		age, slot = entryAge, e.older
	}
}
