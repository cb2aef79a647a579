package session

import (
	"slices"

	"precept/internal/wire"
)

// findByTrail assigns the request to a session by its trail, the keys of the ids and texts that the
// agent sends back. The newest key with a known session decides. findByTrail reports whether such a
// session exists.
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

// findByCountedID assigns the request of a client with a new credential to its session, by the counted
// ids ("call_1", see isCountedID) of the session's newest reply. Other clients get the same ids, so the
// request must continue the newest request of the session, and no other request may have continued its
// newest reply. Call findByTrail first, which looks for sessions of the new credential.
func (t *Threader) findByCountedID(r *Resolved, tr *trail) bool {
	for i := r.req.Len() - 1; i >= tr.oldest(); i-- {
		echoes := r.req.EchoKeys(i)
		for _, k := range echoes[:min(len(echoes), maxTrail)] {
			if !isCountedID(k) {
				continue
			}
			if len(t.index.owners(r.key(k))) > 0 {
				return false // a branch of a conversation of this credential
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

// continuesNewestReply reports whether the request continues or repeats the newest request of the session, and
// the key of o belongs to the newest reply.
func (t *Threader) continuesNewestReply(o owner, r *Resolved) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.heads.get(o.id)
	return h != nil && o.stamp&stampKind == stampReply && o.ownsNewestReply(h) && (h.list.hash == r.list.hash || h.isExtendedBy(r.req))
}

// lookUp assigns the request to the session that the store returns for the first stored key among the unknown keys, and
// reports whether a key is stored. Of several sessions, a session that also has the older keys is
// preferred.
func (t *Threader) lookUp(r *Resolved, tr *trail, unknown []trailKey, look Lookup) bool {
	keys := make([]EchoKey, len(unknown))
	for i, k := range unknown {
		keys[i] = k.key
	}
	stored := look(keys)
	for i, k := range unknown {
		ids := slices.DeleteFunc(slices.Clone(stored[k.key]), func(id ID) bool { return id == tr.excluded }) // a key may occur twice
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

// candidates returns the owners of a key (the sessions in which the key occurred) that the request may
// continue. For a key with unique set, candidates returns the session with the highest rank (see best),
// and no session if several sessions have that rank or the rank is rankNone.
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

// isPlausibleOwner reports whether the request may belong to the session o. A key of the kind stampWeak or stampPast
// may be a few-shot example that other conversations contain, too. The request must then extend the newest request of
// the session. For stampPast, a session without a reply is plausible as well. An agent that rewrites replies still
// sends the other items back, so its requests extend each other.
func (t *Threader) isPlausibleOwner(o owner, req *wire.Request) bool {
	kind := o.stamp & stampKind
	if kind >= stampRequest {
		return true
	}
	h := t.heads.get(o.id)
	unanswered := kind == stampPast && (h == nil || h.replies == 0)
	return unanswered || h != nil && h.isExtendedBy(req)
}

// assignToOwner assigns the request to one of the owners of the newest known key, and reports whether an
// owner fits. Several sessions with the same beginning own the key. The request belongs to the owner whose
// newest reply no other request has continued. Without such an owner, the request is a branch of a
// shared history, and assignToOwner returns false. assignToOwner repeats the look-up while the owners change: at
// the same time, another request may continue an owner, or an owner may get a reply.
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

// assignToBestOwner assigns the request to the owner with the highest rank. If several owners remain equal,
// assignToBestOwner takes the most likely one, and Resolved.EqualSessions names all of them. assignToBestOwner returns
// false if the request belongs to none of the owners.
func (t *Threader) assignToBestOwner(r *Resolved, tr *trail, k trailKey, found []owner) bool {
	if r.byRepeatedContent { // prefer the sessions whose calls and results the request contains
		keys := tr.details()
		found = t.narrow(found, keys[:min(len(keys), maxDetails)])
	}
	t.mu.Lock()
	rank, best := t.highestRanked(found, tr)
	if len(best) > 1 {
		// narrow runs without the lock. Another request may continue a session meanwhile, so best
		// runs again.
		t.mu.Unlock()
		alike := t.narrow(t.narrow(best, tr.olderThan(k.key)), tr.details())
		r.EqualSessions = nil
		for _, o := range alike {
			if len(alike) > 1 {
				r.EqualSessions = append(r.EqualSessions, o.id)
			}
		}
		t.mu.Lock()
		rank, best = t.highestRanked(alike, tr)
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

// maxDetails is the maximum number of details (see trail.details) that assignToBestOwner compares before it ranks the
// owners.
const maxDetails = 8

// mostLikelyOwner returns one of several sessions that fit the request equally: the oldest of the
// recently active sessions, else the newest session.
func (t *Threader) mostLikelyOwner(tied []owner) owner {
	likely := tied[0]
	for _, o := range tied[1:] { // from the newest to the oldest
		h, best := t.heads.get(o.id), t.heads.get(likely.id)
		switch {
		case h == nil || best == nil || h.lastActive.Add(retryWindow).Before(best.lastActive):
		case o.stamp <= likely.stamp:
			likely = o
		}
	}
	return likely
}

// Ranks of a candidate.
const (
	rankNone          = iota // a request that continues the newest reply is in progress, or the key belongs to an older reply
	rankFailed               // a request continued the newest reply and failed
	rankFree                 // no request has continued the newest reply
	rankDeclaredRetry        // an identical request is in progress, and the client declares a retry
	rankRetry                // an identical request failed in the session
)

// highestRanked returns the highest rank and its owners. The caller holds t.mu.
func (t *Threader) highestRanked(found []owner, tr *trail) (rank int, best []owner) {
	for _, o := range found {
		r := rankNone
		switch h := t.heads.get(o.id); {
		case h == nil, !o.ownsNewestReply(h):
		case !h.continued:
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

// ownsNewestReply reports whether the key belongs to the newest reply of the session. For a key of
// requests the result is true: isPlausibleOwner has checked that the request continues the newest
// request of the session.
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

// narrow returns the owners that also own the older keys. A key that none of the remaining owners has
// is ignored, so that the result is never empty.
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
