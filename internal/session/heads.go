package session

import (
	"slices"
	"time"

	"precept/internal/wire"
)

// head is the newest state of a session. Of two sessions that began alike, the head says which one
// a request continues.
type head struct {
	list      uint64    // of the newest request that continued the newest reply
	items     int       // how many items that had,
	last      uint64    // and what the last one was
	at        time.Time // when a request of it began or ended last
	replies   stamp     // complete ones to main requests, as a number
	inFlight  int32     // how many requests with that list are under way
	continued bool      // a request has continued the newest reply
	answered  bool      // some request of it had a complete reply
}

// heads keep a bounded number of sessions, and the first requests of sessions without a name. The
// oldest entries are dropped.
type heads struct {
	sessions recent[ID, *head]
	starts   recent[startKey, []start]
}

func newHeads(n int) heads {
	return heads{newRecent[ID, *head](n), newRecent[startKey, []start](min(n, 8192))}
}

func (h *heads) get(id ID) *head { return h.sessions.of[id] }

func (h *heads) make(id ID) *head {
	if h.sessions.of[id] == nil {
		h.sessions.put(id, &head{})
	}
	return h.sessions.of[id]
}

// goOn stores that the request continues the newest reply of the session.
func (h *heads) goOn(r *Resolved) {
	x := h.make(r.ID)
	if x.list != r.list {
		x.list, x.inFlight = r.list, 0
	}
	x.items, x.last, x.at = r.items, r.last, r.at
	x.continued = true
	x.inFlight++
}

// extended reports whether the request continues where the newest request of the session ended.
func (x *head) extended(req *wire.Request) bool {
	return x.items > 0 && req.Len() > x.items && itemKey(req, x.items-1) == x.last
}

// accepts reports whether the request continues the newest request of the session, or repeats that
// request after a failure. A list that was answered and comes again belongs to another conversation
// with the same first words. A window over the history may have moved.
func (x *head) accepts(req *wire.Request, retry bool) bool {
	if x.items == 0 || req.Delta {
		return true
	}
	if x.list == req.ListHash {
		return retry || x.inFlight == 0 && x.continued
	}
	for i := req.Len() - 1; i >= max(0, req.Len()-maxLook); i-- {
		if itemKey(req, i) == x.last {
			return true
		}
	}
	return false
}

// againWithin is the time in which a repeated first request counts as a retry.
const againWithin = 60 * time.Second

// startKey identifies equal first requests.
type startKey struct {
	scope Scope
	list  uint64
}

// anyCredential returns the key of equal first requests of all clients of the tenant.
func (k startKey) anyCredential() startKey { return startKey{k.scope.anyCredential(), k.list} }

// start is a session that began with a request without any id. While that request is under way, an
// equal request is a second session, because agents start in parallel. After a failure, an equal
// request is the retry.
type start struct {
	id   ID
	name string
}

// first returns the head of a session that has had only its first request, else nil.
func (h *heads) first(k startKey, s start) *head {
	if x := h.get(s.id); x != nil && !x.answered && x.list == k.list {
		return x
	}
	return nil
}

// again returns the session whose failed first request is repeated, and whether the answer is
// certain. A client library that declares a retry is believed while the first request seems to be
// under way: its end may not have been noticed yet.
func (h *heads) again(k startKey, retry bool, now time.Time) (found start, known, sure bool) {
	waiting := 0
	for _, s := range h.starts.of[k] {
		x := h.first(k, s)
		switch {
		case x == nil || now.Sub(x.at) > againWithin:
		case x.inFlight == 0:
			return s, true, true
		case retry:
			if waiting++; waiting == 1 {
				found = s
			}
		}
	}
	return found, waiting > 0, waiting == 1
}

// begin stores a session that began with the request of key k. Sessions beyond their first request
// make room.
func (h *heads) begin(k startKey, s start, now time.Time) {
	twins := slices.DeleteFunc(h.starts.of[k], func(t start) bool {
		x := h.first(k, t)
		return x == nil || t.id == s.id || x.inFlight == 0 && now.Sub(x.at) > againWithin
	})
	h.starts.put(k, push(twins, s, maxOwners))
}
