package session

import (
	"slices"
	"time"

	"precept/internal/wire"
)

// head is a session's newest state. Among sessions with the same beginning, the heads show which one a request
// continues.
type head struct {
	list           listDigest // from the newest request that continued the newest reply
	lastActive     time.Time  // when the newest request began or ended
	replies        stamp      // number of complete replies, except to side requests
	inFlight       int32      // number of requests in progress with this list
	replyContinued bool       // a request has continued the newest reply
	hasReply       bool       // a request got a complete reply
}

// heads holds the newest heads. It also holds, by first request, the newest sessions to which the client gave no name.
// Both maps are bounded.
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

func (h *heads) continueHead(r *Resolved) {
	x := h.getOrAdd(r.ID)
	if x.list.hash != r.list.hash {
		x.inFlight = 0
	}
	x.list, x.lastActive, x.replyContinued = r.list, r.receivedAt, true
	x.inFlight++
}

// isExtendedBy reports whether the request's list is longer than the session's list, and has the session's last item at
// the same index.
func (h *head) isExtendedBy(req *wire.Request) bool {
	return h.list.items > 0 && req.Len() > h.list.items && itemKey(req, h.list.items-1) == h.list.last
}

// isContinuedBy reports whether the request continues the session's newest request, or repeats it after a failure. If
// the newest request was answered, the same list begins a different conversation. The request may lack the oldest
// items, because some agents drop them.
func (h *head) isContinuedBy(req *wire.Request, retry bool) bool {
	if h.list.items == 0 || req.Delta {
		return true
	}
	if h.list.hash == req.ListHash {
		return retry || h.inFlight == 0 && h.replyContinued
	}
	for i := req.Len() - 1; i >= max(0, req.Len()-maxSearchedItems); i-- {
		if itemKey(req, i) == h.list.last {
			return true
		}
	}
	return false
}

const retryWindow = 60 * time.Second // how long after a failed request an identical request counts as a retry

// startKey identifies a first request. Identical requests have equal keys.
type startKey struct {
	scope    Scope
	listHash uint64
}

func (k startKey) anyCredential() startKey { return startKey{k.scope.anyCredential(), k.listHash} }

// unnamedStart is a session that began with a request without a session name. While this request is in progress, an
// identical request starts a second session, because several agents may have started in parallel. After this request
// has failed, an identical request is a retry.
type unnamedStart struct {
	id   ID
	name string
}

func (h *heads) firstRequest(k startKey, s unnamedStart) *head {
	if x := h.get(s.id); x != nil && !x.hasReply && x.list.hash == k.listHash {
		return x
	}
	return nil
}

// findRetry returns the session with the failed first request that a request with key k repeats. If the client library
// declares a retry, the first request may also be in progress, because precept may not have noticed that the client
// gave up. unambiguous is false if several such requests are in progress.
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

// add stores a session that began with the first request k. It removes another session for k if that session has a
// later request, or failed more than retryWindow ago.
func (h *heads) add(k startKey, s unnamedStart, now time.Time) {
	waiting := slices.DeleteFunc(h.starts.values[k], func(t unnamedStart) bool {
		x := h.firstRequest(k, t)
		return x == nil || t.id == s.id || x.inFlight == 0 && now.Sub(x.lastActive) > retryWindow
	})
	h.starts.put(k, appendNewest(waiting, s, maxOwners))
}
