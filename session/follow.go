package session

import (
	"slices"

	"precept/wire"
)

// alone gives the owner for a key that says little: there must be one session only whose newest
// reply has the key and was not continued yet. It is nil where there is none, or more than one.
func (t *Threader) alone(r *Resolved, c Claim, found []owner) []owner {
	if len(found) == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if rank, tied := t.best(found, r.list, c.Retry); rank >= rankOpen && len(tied) == 1 {
		return tied
	}
	return nil
}

// follow finds the session that owns the newest known key of the trail.
func (t *Threader) follow(r *Resolved, c Claim, tr *trail, look Lookup) bool {
	var buf [maxOwners]owner
	var unknown []EchoKey
	for k, ok := tr.next(); ok; k, ok = tr.next() {
		found := t.believed(t.index.owners(buf[:0], k.EchoKey), tr.req)
		if tr.lone {
			found = t.alone(r, c, found)
		}
		if tr.except != (ID{}) {
			found = slices.DeleteFunc(found, func(o owner) bool { return o.id == tr.except })
		}
		if len(found) == 0 {
			unknown = append(unknown, k.EchoKey)
			continue
		}
		r.Method, r.weak = tr.method(len(unknown)), k.weak
		return t.choose(r, c, k.EchoKey, found, tr)
	}
	if look == nil || len(unknown) == 0 {
		return false
	}
	stored := look(unknown)
	for i, k := range unknown {
		ids := slices.DeleteFunc(stored[k], func(id ID) bool { return id == tr.except })
		if len(ids) == 0 {
			continue
		}
		for _, older := range unknown[i+1:] { // several: the one that shares more of the past
			if both := shared(ids, stored[older]); len(ids) > 1 && len(both) > 0 {
				ids = both
			}
		}
		r.set(ids[0])
		r.Method = tr.method(i)
		t.markTaken(r)
		return true
	}
	return false
}

// set names the session by its key; the caller puts the stored name in its place when it has the
// record.
func (r *Resolved) set(id ID) { r.ID, r.Name = id, "" }

// believed drops the sessions in which only requests have shown the key, never a reply, unless this
// request extends the newest request of the session. What shows a session's past and none of its
// replies is another conversation with the same examples in front; an agent that rewrites replies
// before it sends them back still sends everything else.
func (t *Threader) believed(found []owner, req *wire.Request) []owner {
	sure := func(o owner) bool { return o.stamp&stampKind >= stampRequest }
	if !slices.ContainsFunc(found, func(o owner) bool { return !sure(o) }) {
		return found
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := found[:0]
	for _, o := range found {
		h := t.heads.get(o.id)
		unanswered := o.stamp&stampKind == stampPast && (h == nil || h.replies == 0)
		if sure(o) || unanswered || h != nil && h.extended(req) {
			kept = append(kept, o)
		}
	}
	return kept
}

// choose decides among the owners of the newest known key. Several own it when two runs began
// alike. The request belongs to the one whose newest reply it continues and which nobody has
// continued yet; where none is, it is a branch of a shared past, and gets a session of its own. An
// equal request may have taken the one that was left for this one, and left its own, which was
// answered meanwhile: so who owns the key is asked again as long as that changes.
func (t *Threader) choose(r *Resolved, c Claim, k EchoKey, found []owner, tr *trail) bool {
	for range maxOwners {
		if len(found) == 1 {
			r.set(found[0].id)
			t.markTaken(r)
			return true
		}
		if t.pick(r, c, found, tr) {
			return true
		}
		again := t.believed(t.index.owners(nil, k), tr.req)
		again = slices.DeleteFunc(again, func(o owner) bool { return o.id == tr.except })
		if len(again) == 0 || slices.Equal(again, found) {
			break
		}
		found = again
	}
	return false
}

// pick takes the one of several owners that the request belongs to, if there is one.
func (t *Threader) pick(r *Resolved, c Claim, found []owner, tr *trail) bool {
	if r.weak { // first of all those that did what the request shows: another one may be free, and is none of it
		keys := tr.details()
		found = t.narrow(found, keys[:min(len(keys), maxTelling)])
	}
	t.mu.Lock()
	best, tied := t.best(found, r.list, c.Retry)
	if len(tied) > 1 {
		// The older keys are asked without the lock; what was best may be taken meanwhile, so it is
		// judged again.
		t.mu.Unlock()
		alike := t.narrow(t.narrow(tied, tr.rest()), tr.details())
		r.Doubt = nil
		for _, o := range alike {
			if len(alike) > 1 {
				r.Doubt = append(r.Doubt, o.id)
			}
		}
		t.mu.Lock()
		best, tied = t.best(alike, r.list, c.Retry)
	}
	defer t.mu.Unlock()
	if best == rankNone {
		r.Doubt = nil
		return false
	}
	r.set(t.likeliest(tied).id)
	t.heads.markTaken(r)
	return true
}

// maxTelling is how many details are asked for of sessions that may all have gone on.
const maxTelling = 8

// likeliest guesses among sessions that nothing tells apart. Of those that were spoken to a moment
// ago it is the one that came first; else it is the newest, since the others were left.
func (t *Threader) likeliest(tied []owner) owner {
	pick := tied[0]
	for _, o := range tied[1:] { // from the newest to the oldest
		h, best := t.heads.get(o.id), t.heads.get(pick.id)
		switch {
		case h == nil || best == nil || h.at.Add(againWithin).Before(best.at):
		case o.stamp <= pick.stamp:
			pick = o
		}
	}
	return pick
}

// Ranks of a candidate.
const (
	rankNone  = iota // it has gone on from here
	rankBusy         // its newest reply is being continued right now, differently
	rankOpen         // its newest reply was continued, and that failed
	rankFree         // nobody has continued its newest reply
	rankHeld         // exactly this request is under way in it, and is said to be sent again
	rankAgain        // exactly this request failed in it
)

// best returns the highest rank and the owners that have it.
func (t *Threader) best(found []owner, list uint64, retry bool) (rank int, tied []owner) {
	for _, o := range found {
		r := rankNone
		switch h := t.heads.get(o.id); {
		case h == nil, !o.current(h):
		case !h.taken:
			r = rankFree
		case h.list == list && h.flying == 0:
			r = rankAgain
		case h.list == list && retry:
			r = rankHeld
		case h.flying == 0:
			r = rankOpen
		case h.list != list:
			r = rankBusy
		}
		if r > rank {
			rank, tied = r, tied[:0]
		}
		if r == rank {
			tied = append(tied, o)
		}
	}
	return rank, tied
}

// current says whether the key is of the session's newest reply. Weak owners are here because the
// request goes on where the session's newest request ended.
func (o owner) current(h *head) bool {
	switch o.stamp & stampKind {
	case stampReply:
		return o.stamp&^stampKind == h.replies
	case stampWeak, stampPast:
		return true
	case stampRequest:
	}
	return false
}

// narrow keeps the owners that also own older parts of the conversation, as long as some do.
func (t *Threader) narrow(found []owner, older []EchoKey) []owner {
	var buf [maxOwners]owner
	for _, k := range older {
		if len(found) == 1 {
			break
		}
		also := t.index.owners(buf[:0], k)
		kept := make([]owner, 0, len(found))
		for _, o := range found {
			for _, a := range also {
				if a.id == o.id {
					kept = append(kept, o)
				}
			}
		}
		if len(kept) > 0 {
			found = kept
		}
	}
	return found
}

func (t *Threader) markTaken(r *Resolved) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heads.markTaken(r)
}

func shared(a, b []ID) []ID {
	var both []ID
	for _, x := range a {
		for _, y := range b {
			if x == y {
				both = append(both, x)
			}
		}
	}
	return both
}
