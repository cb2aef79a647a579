package session

import (
	"slices"
	"time"

	"precept/internal/wire"
)

// head is the newest state of a session. Among sessions with an equal beginning, the head
// identifies the session that a request continues.
type head struct {
	list      listMark  // list of the newest request that continued the newest reply
	at        time.Time // newest begin or end of a request
	replies   stamp     // number of complete replies to main requests
	inFlight  int32     // number of requests with the list that are in progress
	continued bool      // a request has continued the newest reply
	hasReply  bool      // a request of the session had a complete reply
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

func (h *heads) get(id ID) *head { return h.sessions.values[id] }

func (h *heads) make(id ID) *head {
	if h.sessions.values[id] == nil {
		h.sessions.put(id, &head{})
	}
	return h.sessions.values[id]
}

// continueHead stores that the request continues the newest reply of the session.
func (h *heads) continueHead(r *Resolved) {
	x := h.make(r.ID)
	if x.list.hash != r.list.hash {
		x.inFlight = 0
	}
	x.list, x.at, x.continued = r.list, r.at, true
	x.inFlight++
}

// extended reports whether the request continues where the newest request of the session ended.
func (x *head) extended(req *wire.Request) bool {
	return x.list.items > 0 && req.Len() > x.list.items && itemKey(req, x.list.items-1) == x.list.last
}

// accepts reports whether the request continues the newest request of the session, or repeats the
// request after a failure. A repeated list that had an answer belongs to another conversation with
// equal first words. accepts also accepts a list whose oldest items the agent has dropped.
func (x *head) accepts(req *wire.Request, retry bool) bool {
	if x.list.items == 0 || req.Delta {
		return true
	}
	if x.list.hash == req.ListHash {
		return retry || x.inFlight == 0 && x.continued
	}
	for i := req.Len() - 1; i >= max(0, req.Len()-maxLook); i-- {
		if itemKey(req, i) == x.list.last {
			return true
		}
	}
	return false
}

// retryWindow is the time in which a repeated first request counts as a retry.
const retryWindow = 60 * time.Second

// startKey identifies equal first requests.
type startKey struct {
	scope Scope
	list  uint64
}

// anyCredential returns the key of equal first requests of all clients of the tenant.
func (k startKey) anyCredential() startKey { return startKey{k.scope.anyCredential(), k.list} }

// start is a session whose first request had no id. During the first request, an equal request is a
// second session, because agents start in parallel. After a failure, an equal request is the retry.
type start struct {
	id   ID
	name string
}

// first returns the head of a session with a single request, else nil.
func (h *heads) first(k startKey, s start) *head {
	if x := h.get(s.id); x != nil && !x.hasReply && x.list.hash == k.list {
		return x
	}
	return nil
}

// again returns the session whose failed first request is repeated. sure reports whether a single
// session fits. A retry that the client library declares counts during the first request too: the
// end of the first request may be unnoticed.
func (h *heads) again(k startKey, retry bool, now time.Time) (found start, known, sure bool) {
	waiting := 0
	for _, s := range h.starts.values[k] {
		x := h.first(k, s)
		switch {
		case x == nil || now.Sub(x.at) > retryWindow:
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

// add stores a session that began with the request of key k. Sessions with a later request make
// room.
func (h *heads) add(k startKey, s start, now time.Time) {
	twins := slices.DeleteFunc(h.starts.values[k], func(t start) bool {
		x := h.first(k, t)
		return x == nil || t.id == s.id || x.inFlight == 0 && now.Sub(x.at) > retryWindow
	})
	h.starts.put(k, push(twins, s, maxOwners))
}
