package session

import (
	"slices"
	"time"

	"precept/internal/wire"
)

// head is the newest state of a session. If several sessions begin equally, their heads show which session a
// request continues.
type head struct {
	list       listMark  // list of the newest request that continued the newest reply
	lastActive time.Time // time at which the newest request began or ended
	replies    stamp     // number of complete replies to main requests
	inFlight   int32     // number of requests with the list that are in progress
	continued  bool      // a request has continued the newest reply
	hasReply   bool      // a request of the session had a complete reply
}

// heads holds the heads of a bounded number of sessions, and the first requests of sessions without a
// name. A new entry removes the oldest.
type heads struct {
	sessions recent[ID, *head]
	starts   recent[startKey, []unnamedStart]
}

func newHeads(n int) heads {
	return heads{newRecent[ID, *head](n), newRecent[startKey, []unnamedStart](min(n, 8192))}
}

func (h *heads) get(id ID) *head { return h.sessions.values[id] }

func (h *heads) getOrAdd(id ID) *head {
	if h.sessions.values[id] == nil {
		h.sessions.put(id, &head{})
	}
	return h.sessions.values[id]
}

// continueHead stores that the request continues the newest reply of the session.
func (h *heads) continueHead(r *Resolved) {
	x := h.getOrAdd(r.ID)
	if x.list.hash != r.list.hash {
		x.inFlight = 0
	}
	x.list, x.lastActive, x.continued = r.list, r.at, true
	x.inFlight++
}

// isExtendedBy reports whether the list of the request is longer than the list of the session's newest
// request, and has the last item of that list at the same index.
func (h *head) isExtendedBy(req *wire.Request) bool {
	return h.list.items > 0 && req.Len() > h.list.items && itemKey(req, h.list.items-1) == h.list.last
}

// isContinuedBy reports whether the request continues the newest request of the session, or repeats the
// newest request after a failure. The same list after an answer belongs to another conversation with
// the same first words. The agent may have dropped the oldest items of a continued list.
func (h *head) isContinuedBy(req *wire.Request, retry bool) bool {
	if h.list.items == 0 || req.Delta {
		return true
	}
	if h.list.hash == req.ListHash {
		return retry || h.inFlight == 0 && h.continued
	}
	for i := req.Len() - 1; i >= max(0, req.Len()-maxSearchedItems); i-- {
		if itemKey(req, i) == h.list.last {
			return true
		}
	}
	return false
}

// retryWindow is the time in which a repeated first request counts as a retry.
const retryWindow = 60 * time.Second

// startKey identifies identical first requests.
type startKey struct {
	scope Scope
	list  uint64
}

// anyCredential returns the key of identical first requests of all clients of the tenant.
func (k startKey) anyCredential() startKey { return startKey{k.scope.anyCredential(), k.list} }

// unnamedStart is a session whose first request had no session name. During the first request, an identical
// request starts a second session, because several agents may start in parallel with identical requests.
// After a failure, an identical request is a retry.
type unnamedStart struct {
	id   ID
	name string
}

// firstRequest returns the head of a session whose only request has the list of the key, else nil.
func (h *heads) firstRequest(k startKey, s unnamedStart) *head {
	if x := h.get(s.id); x != nil && !x.hasReply && x.list.hash == k.list {
		return x
	}
	return nil
}

// findRetry returns the session whose failed first request is repeated by a request with key k. known
// reports whether such a session exists. retry is true if the client library declares a retry. The first
// request may then still be in progress, because precept may not have noticed its end. sure is false if
// no failed first request fits, and several first requests in progress do.
func (h *heads) findRetry(k startKey, retry bool, now time.Time) (found unnamedStart, known, unambiguous bool) {
	waiting := 0
	for _, s := range h.starts.values[k] {
		x := h.firstRequest(k, s)
		switch {
		case x == nil || now.Sub(x.lastActive) > retryWindow:
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

// add stores a session that began with the request of key k, and removes sessions of the key that have
// a later request.
func (h *heads) add(k startKey, s unnamedStart, now time.Time) {
	twins := slices.DeleteFunc(h.starts.values[k], func(t unnamedStart) bool {
		x := h.firstRequest(k, t)
		return x == nil || t.id == s.id || x.inFlight == 0 && now.Sub(x.lastActive) > retryWindow
	})
	h.starts.put(k, push(twins, s, maxOwners))
}
