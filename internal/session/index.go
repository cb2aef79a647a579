package session

import (
	"sync"
)

// stamp describes an echo in its session: the kind in the two highest bits, and the number of the reply
// that contained the echo in the other bits.
type stamp uint32

// The kinds, from the weakest evidence to the strongest. A key of the kinds stampWeak and stampPast may be a
// few-shot example, which many conversations share.
const (
	stampWeak    stamp = 0 << 30 // a text or a counted id in a request
	stampPast    stamp = 1 << 30 // a random id in the first request of the session
	stampRequest stamp = 2 << 30 // a random id in a later request, or content of any other reply
	stampReply   stamp = 3 << 30 // content of a complete reply to a main request

	stampKind stamp = 3 << 30 // mask of the kind
)

// owner is a session that had a key.
type owner struct {
	id    ID
	stamp stamp
}

// index maps echo keys to their sessions. An index is bounded: new entries overwrite the oldest. An
// entry needs 32 bytes in addition to the map.
type index struct {
	mu   sync.Mutex
	last map[EchoKey]uint32 // slot of the newest entry of the key, plus one
	ring ring[indexEntry]
}

type indexEntry struct {
	key   EchoKey
	owner owner
	older uint32 // slot of the next older entry of the key, plus one; 0 for none. The slot may be reused, so walk checks the entry
}

// maxOwners is the maximum number of sessions of a key that are compared. Up to this number of sessions may begin with
// identical requests at the same time.
const maxOwners = 128

func newIndex(entries int) *index {
	return &index{last: make(map[EchoKey]uint32), ring: ring[indexEntry]{limit: entries}}
}

// addAll adds a session to several keys, and returns the keys that did not have the session.
func (x *index) addAll(keys []EchoKey, o owner) (added []EchoKey) {
	for _, k := range keys {
		if x.add(k, o) {
			added = append(added, k)
		}
	}
	return added
}

// add adds a session to a key, and reports whether the key did not have the session.
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

// owners returns the sessions of a key, newest first.
func (x *index) owners(k EchoKey) (list []owner) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.walk(k, func(e *indexEntry) bool {
		list = append(list, e.owner)
		return true
	})
	return list
}

// walk visits the entries of a key, newest first, until visit returns false. walk stops at a link
// to an overwritten slot: the slot holds another key, or an entry younger than the link.
func (x *index) walk(k EchoKey, visit func(*indexEntry) bool) {
	age := -1
	at := x.last[k]
	for range maxOwners {
		if at == 0 {
			return
		}
		e := &x.ring.entries[at-1]
		a := (x.ring.next - int(at) + x.ring.limit) % x.ring.limit
		if e.key != k || a <= age || !visit(e) {
			return
		}
		age, at = a, e.older
	}
}
