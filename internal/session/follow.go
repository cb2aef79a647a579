package session

import (
	"slices"

	"precept/internal/wire"
)

// findByTrail finds the request's session by the trail, the keys for ids and texts that the agent sends back (echoes).
// The newest key with a known session determines the session.
func (t *Threader) findByTrail(r *Resolved, tr *trail, look Lookup) bool {
	var unknown []trailKey
	for k := range tr.keys {
		if found := t.candidates(tr, k); len(found) > 0 {
			r.Method, r.byRepeatedContent = k.method, k.weak
			return t.assignToOwner(r, tr, k, found)
		}
		unknown = append(unknown, k)
	}
	return look != nil && len(unknown) > 0 && t.lookUp(r, tr, unknown, look)
}

// findByCountedID finds the session after a client has changed its credential. The search uses ids from a server's
// counter, such as "call_1". Other clients get the same ids, so the request must extend the session's newest request,
// and must be the first to continue the newest reply. Call findByTrail first, because it finds sessions with the new
// credential.
func (t *Threader) findByCountedID(r *Resolved, tr *trail) bool {
	for i := r.req.Len() - 1; i >= tr.oldest(); i-- {
		echoes := r.req.EchoKeys(i)
		for _, k := range echoes[:min(len(echoes), maxTrail)] {
			if !isCountedID(k) {
				continue
			}
			if len(t.index.owners(r.key(k))) > 0 {
				return false // a session with this credential has the id, so the request branches off it
			}
			key := r.detailKey(k)
			found := slices.DeleteFunc(t.index.owners(key), func(o owner) bool { return o.id == tr.excluded || !t.continuesNewestReply(o, r) })
			if len(found) == 0 {
				continue
			}
			r.Method, r.byRepeatedContent = ByEcho, true
			return t.assignToBestOwner(r, tr, trailKey{key: key}, found)
		}
	}
	return false
}

func (t *Threader) continuesNewestReply(o owner, r *Resolved) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.heads.get(o.id)
	return h != nil && o.stamp&stampKind == stampReply && o.ownsNewestReply(h) && (h.list.hash == r.list.hash || h.isExtendedBy(r.req))
}

// lookUp assigns the request to a session in the store. It uses the first key with a stored session. If several
// sessions have this key, a session that also has the older keys is preferred.
func (t *Threader) lookUp(r *Resolved, tr *trail, unknown []trailKey, look Lookup) bool {
	keys := make([]EchoKey, len(unknown))
	for i, k := range unknown {
		keys[i] = k.key
	}
	stored := look(keys)
	for i, k := range unknown {
		ids := slices.DeleteFunc(slices.Clone(stored[k.key]), func(id ID) bool { return id == tr.excluded }) // unknown may repeat a key
		if len(ids) == 0 {
			continue
		}
		for _, older := range keys[i+1:] {
			narrowed := slices.DeleteFunc(slices.Clone(ids), func(id ID) bool { return !slices.Contains(stored[older], id) })
			if len(narrowed) > 0 {
				ids = narrowed
			}
		}
		r.Method = k.method
		t.assign(r, ids[0])
		return true
	}
	return false
}

// candidates returns the sessions with key k that the request may continue. For a unique key (trailKey.unique), it
// returns only the session with the highest rank. It returns nothing if this rank is rankNone, or if two sessions have
// this rank.
func (t *Threader) candidates(tr *trail, k trailKey) []owner {
	found := t.index.owners(k.key)
	found = slices.DeleteFunc(found, func(o owner) bool { return o.id == tr.excluded })
	if len(found) == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	found = slices.DeleteFunc(found, func(o owner) bool { return !t.isPlausibleOwner(o, tr.resolved.req) })
	if k.unique {
		rank, best := t.highestRanked(found, tr)
		if rank < rankFailed || len(best) > 1 {
			return nil
		}
		return best
	}
	return found
}

// isPlausibleOwner reports whether the request may belong to the session. A stampWeak or stampPast key may come from a
// few-shot example in many conversations. With such a key, the request must extend the session's newest request or, for
// stampPast, the session must have no reply.
func (t *Threader) isPlausibleOwner(o owner, req *wire.Request) bool {
	kind := o.stamp & stampKind
	if kind >= stampRequest {
		return true
	}
	h := t.heads.get(o.id)
	unanswered := kind == stampPast && (h == nil || h.replies == 0)
	return unanswered || h != nil && h.isExtendedBy(req)
}

// assignToOwner assigns the request to one of the owners, the sessions with the newest known key. It prefers an owner
// whose newest reply no request has continued. Without such an owner, the request branches off a shared history, and
// the result is false. If concurrent requests have changed the owners, they are compared again.
func (t *Threader) assignToOwner(r *Resolved, tr *trail, k trailKey, found []owner) bool {
	for range maxOwners {
		if len(found) == 1 {
			t.assign(r, found[0].id)
			return true
		}
		if t.assignToBestOwner(r, tr, k, found) {
			return true
		}
		again := t.candidates(tr, k)
		if len(again) == 0 || slices.Equal(again, found) {
			break
		}
		found = again
	}
	return false
}

// assignToBestOwner assigns the request to the owner with the highest rank. If several owners with this rank have equal
// histories, mostLikelyOwner decides, and Resolved.EqualSessions lists these owners.
func (t *Threader) assignToBestOwner(r *Resolved, tr *trail, k trailKey, found []owner) bool {
	if r.byRepeatedContent { // every run of the agent may have the key k, but calls and results differ
		keys := tr.details()
		found = t.narrow(found, keys[:min(len(keys), maxDetails)])
	}
	t.mu.Lock()
	rank, best := t.highestRanked(found, tr)
	if len(best) > 1 {
		// narrow runs without the lock, so a concurrent request may continue a session, and the ranks must be computed
		// again.
		t.mu.Unlock()
		equalOwners := t.narrow(t.narrow(best, tr.olderThan(k.key)), tr.details())
		r.EqualSessions = nil
		for _, o := range equalOwners {
			if len(equalOwners) > 1 {
				r.EqualSessions = append(r.EqualSessions, o.id)
			}
		}
		t.mu.Lock()
		rank, best = t.highestRanked(equalOwners, tr)
	}
	defer t.mu.Unlock()
	if rank == rankNone {
		r.EqualSessions = nil
		return false
	}
	r.ID, r.Name = t.mostLikelyOwner(best).id, ""
	t.heads.continueHead(r)
	return true
}

const maxDetails = 8

// mostLikelyOwner returns the owner with the fewest replies, and among these the oldest. It ignores an owner that was
// last active more than retryWindow before the likeliest owner so far.
func (t *Threader) mostLikelyOwner(owners []owner) owner {
	likely := owners[0]
	for _, o := range owners[1:] { // newest to oldest
		h, best := t.heads.get(o.id), t.heads.get(likely.id)
		switch {
		case h == nil || best == nil || h.lastActive.Add(retryWindow).Before(best.lastActive):
		case o.stamp <= likely.stamp:
			likely = o
		}
	}
	return likely
}

const (
	rankNone          = iota // a request in progress continues the newest reply, or the key comes from an older reply
	rankFailed               // a request that continued the newest reply failed
	rankFree                 // no request has continued the newest reply
	rankDeclaredRetry        // an identical request is in progress, and the client library declares a retry
	rankRetry                // an identical request failed
)

// highestRanked returns the highest rank, and the owners with this rank. The caller holds t.mu.
func (t *Threader) highestRanked(found []owner, tr *trail) (rank int, best []owner) {
	for _, o := range found {
		r := rankNone
		switch h := t.heads.get(o.id); {
		case h == nil, !o.ownsNewestReply(h):
		case !h.replyContinued:
			r = rankFree
		case h.list.hash == tr.resolved.list.hash && h.inFlight == 0:
			r = rankRetry
		case h.list.hash == tr.resolved.list.hash && tr.claim.Retry:
			r = rankDeclaredRetry
		case h.inFlight == 0:
			r = rankFailed
		}
		if r > rank {
			rank, best = r, best[:0]
		}
		if r == rank {
			best = append(best, o)
		}
	}
	return rank, best
}

// ownsNewestReply reports whether the key comes from the session's newest reply. For a weak or past key,
// isPlausibleOwner has already compared the newest request, so the result is true.
func (o owner) ownsNewestReply(h *head) bool {
	switch o.stamp & stampKind {
	case stampReply:
		return o.stamp&^stampKind == h.replies
	case stampWeak, stampPast:
		return true
	case stampRequest:
	}
	return false
}

// narrow returns the owners that also have the older keys. It ignores a key that no remaining owner has, so the result
// is never empty.
func (t *Threader) narrow(found []owner, older []EchoKey) []owner {
	for _, k := range older {
		if len(found) == 1 {
			break
		}
		also := t.index.owners(k)
		kept := slices.DeleteFunc(slices.Clone(found), func(o owner) bool {
			return !slices.ContainsFunc(also, func(a owner) bool { return a.id == o.id })
		})
		if len(kept) > 0 {
			found = kept
		}
	}
	return found
}
