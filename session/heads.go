package session

import (
	"time"

	"precept/wire"
)

// head is how far a session is: which of two that began alike a request continues.
type head struct {
	list    uint64    // of the newest request that continued the newest reply
	items   int       // how many items that had,
	last    uint64    // and what the last one was
	at      time.Time // when a request of it ended last
	replies stamp     // completed, as a number
	flying  int32     // how many requests with that list are under way
	taken   bool      // a request has continued the newest reply
}

// heads remembers a bounded number of sessions; the oldest is forgotten.
type heads struct {
	of   map[ID]*head
	ring ring[ID]
}

func newHeads(n int) heads { return heads{of: make(map[ID]*head), ring: ring[ID]{most: n}} }

// ring holds the newest entries, so many at most.
type ring[K any] struct {
	keys []K
	next int // where the next one goes
	most int
}

// add notes an entry, and gives the one that has to go for it, if one has.
func (r *ring[K]) add(k K) (oldest K, full bool) {
	if full = len(r.keys) == r.most; full {
		oldest, r.keys[r.next] = r.keys[r.next], k
	} else {
		r.keys = append(r.keys, k)
	}
	r.next = (r.next + 1) % r.most
	return oldest, full
}

func (h *heads) get(id ID) *head { return h.of[id] }

func (h *heads) make(id ID) *head {
	if x := h.of[id]; x != nil {
		return x
	}
	if oldest, full := h.ring.add(id); full {
		delete(h.of, oldest)
	}
	x := &head{}
	h.of[id] = x
	return x
}

// markTaken marks the session's newest reply as continued by the request.
func (h *heads) markTaken(r *Resolved) {
	x := h.make(r.ID)
	if x.list != r.list {
		x.list, x.flying = r.list, 0
	}
	x.items, x.last = r.items, r.last
	x.taken = true
	x.flying++
}

// extended says whether the request goes on where the session's newest one ended.
func (x *head) extended(req *wire.Request) bool {
	return x.items > 0 && req.Len() > x.items && itemKey(req, x.items-1) == x.last
}

// continued says whether the request goes on with what the session's newest one showed, or is that
// one again, which failed: what was answered and comes again is another conversation that begins
// with the same words. A window over the history may have moved.
func (x *head) continued(req *wire.Request, retry bool) bool {
	if x.items == 0 || req.Delta {
		return true
	}
	if x.list == req.ListHash {
		return retry || x.flying == 0 && x.taken
	}
	for i := req.Len() - 1; i >= max(0, req.Len()-maxLook); i-- {
		if itemKey(req, i) == x.last {
			return true
		}
	}
	return false
}

// againWithin is how long a failed first request is waited for.
const againWithin = 60 * time.Second

// startKey is what two identical first requests have in common.
type startKey struct {
	scope Scope
	list  uint64
}

// start is a first request without any id. While it is under way an equal one is a second session,
// since agents are started in parallel; when it ended without a reply, an equal one is its retry.
type start struct {
	id      ID
	name    string
	at      time.Time // of the newest event
	flying  int
	replied bool
}

// starts remembers a bounded number of first requests.
type starts struct {
	of   map[startKey][]*start
	ring ring[startKey]
}

func newStarts(n int) starts {
	return starts{of: make(map[startKey][]*start), ring: ring[startKey]{most: n}}
}

// again finds the failed first request that this one repeats, and says whether it is sure of it. A
// library that says that it repeats is believed even while the first one seems to be under way: its
// end may not have been noticed yet.
func (s *starts) again(k startKey, retry bool, now time.Time) (found *start, sure bool) {
	waiting := 0
	for _, x := range s.of[k] {
		switch {
		case x.replied || now.Sub(x.at) > againWithin:
		case x.flying == 0:
			return x, true
		case retry:
			if waiting++; found == nil {
				found = x
			}
		}
	}
	return found, waiting == 1
}

// maxTwins is how many first requests that are equal are told apart at a time.
const maxTwins = maxOwners

func (s *starts) add(k startKey, x *start) {
	twins := s.of[k]
	if len(twins) == 0 {
		if oldest, full := s.ring.add(k); full {
			delete(s.of, oldest)
		}
	}
	live := twins[:0]
	for _, t := range twins { // finished ones make room
		if !t.replied && (t.flying > 0 || x.at.Sub(t.at) <= againWithin) {
			live = append(live, t)
		}
	}
	if len(live) >= maxTwins {
		live = live[1:]
	}
	s.of[k] = append(live, x)
}

func (s *starts) find(k startKey, id ID) *start {
	for _, x := range s.of[k] {
		if x.id == id {
			return x
		}
	}
	return nil
}

func (s *starts) replied(k startKey, id ID) {
	if x := s.find(k, id); x != nil {
		x.replied = true
	}
}

func (s *starts) ended(k startKey, id ID, complete bool, now time.Time) {
	x := s.find(k, id)
	if x == nil {
		return
	}
	x.replied = x.replied || complete
	x.flying--
	x.at = now
}
