package session

import (
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"precept/internal/wire"
)

// Resolve finds the session of a request by the first rule that applies: a name that only one conversation uses, the
// previous reply that the request names, ids and texts that the request sends back (echoes), a name that several
// conversations may share, the first words of a cut history, a single message that grows, a retry of a first request.
// Otherwise the session is new.
func (t *Threader) Resolve(sc Scope, c Claim, req *wire.Request, now time.Time, look Lookup) Resolved {
	r := Resolved{scope: sc, at: now}
	if req == nil {
		if c.Session != "" {
			r.useClaimedName(c)
		} else {
			t.openSession(&r, c)
		}
		return r
	}
	r.list, r.req, r.prefill = listMark{hash: req.ListHash, items: req.End()}, req, req.Prefilled()
	if n := r.list.items; n > 0 {
		r.list.last = itemKey(req, n-1)
	}
	shared, tr := c.sharesName(), &trail{resolved: &r, claim: c}
	switch {
	case c.Session != "" && !shared:
		r.useClaimedName(c)
		t.continueConversation(&r)
	case t.findByTrail(&r, tr, look):
	case t.findByCountedID(&r, tr):
	case shared && t.fitsSharedName(&r, c, req):
	case t.findCutHistory(&r, req, look):
	case t.findGrownTranscript(&r, req):
	default:
		t.openSession(&r, c)
		t.transcripts.add(&r, req)
	}
	r.Echoes = t.indexRequest(&r, req)
	return r
}

// fitsSharedName assigns the request to the session of its shared name, if the name is unknown or the
// request continues the newest request under the name. Lists without shared content are separate
// conversations.
func (t *Threader) fitsSharedName(r *Resolved, c Claim, req *wire.Request) bool {
	id := r.scope.idOf(c.Space, c.Session)
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.heads.get(id); h != nil && !h.accepts(req, c.Retry) {
		return false
	}
	r.useClaimedName(c)
	r.SharedName = true
	t.heads.continueHead(r)
	return true
}

// SplitSession returns a new session for a request that has nothing in common with the session under its
// name.
func (t *Threader) SplitSession(r Resolved, c Claim, now time.Time) Resolved {
	t.RecordEnd(r, false, now)
	r.SharedName = false
	t.openSession(&r, c)
	r.Echoes = t.indexRequest(&r, r.req)
	return r
}

// openSession starts a session, or returns the session of an equal first request that failed a moment
// ago.
func (t *Threader) openSession(r *Resolved, c Claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.Method = ByNew
	key := startKey{r.scope, r.list.hash}
	s, known, sure := t.heads.findRetry(key, c.Retry, r.at)
	if !known {
		s, known, sure = t.heads.findRetry(key.anyCredential(), false, r.at)
	}
	if known {
		if !sure {
			r.Doubt = []ID{s.id}
		}
		r.ID, r.Name = s.id, s.name
		t.heads.continueHead(r)
		return
	}
	random := t.entropy()
	r.Name = "s_" + hex.EncodeToString(random[:])
	r.ID, r.New = r.scope.idOf(SpaceName, r.Name), true
	t.heads.continueHead(r)
	if r.list.hash != 0 {
		t.heads.add(key, start{r.ID, r.Name}, r.at)
	}
}

// ResolveSubagent returns the session of a sub-agent whose request carries the name of its parent
// session. The echoes of the request identify the session. If the echoes are unknown, first decides: a
// first request starts a new session; for another request ok is false, because the request is a side
// request of the parent.
func (t *Threader) ResolveSubagent(parent Resolved, c Claim, first bool, now time.Time, look Lookup) (r Resolved, ok bool) {
	req := parent.req
	c.Session, c.Space, c.Method = "", "", ""
	r = Resolved{scope: parent.scope, at: now, req: req, list: parent.list}
	r.scope.Run = parent.ID.String()
	tr := &trail{resolved: &r, claim: c, except: parent.ID}
	switch {
	case t.findByTrail(&r, tr, look):
	case t.findByCountedID(&r, tr):
	case first:
		t.openSession(&r, c)
	default:
		return r, false
	}
	t.RecordEnd(parent, false, now)
	r.Echoes = t.indexRequest(&r, req)
	return r, true
}

// FindLost returns the stored session of a request. r is the session that the request started while the
// store did not answer. Only random ids count, because texts and counted ids may belong to another
// conversation. FindLost reads more items than Resolve, because the newest items are those of r. ok is
// false if the store knows no session.
func (t *Threader) FindLost(r Resolved, c Claim, now time.Time, look Lookup) (found Resolved, ok bool) {
	found = Resolved{scope: r.scope, at: now, req: r.req, list: r.list, prefill: r.prefill}
	tr := &trail{resolved: &found, claim: c, except: r.ID, echoes: maxSearchedItems}
	var ids []trailKey
	for k := range tr.keys {
		if !k.weak && !k.unique {
			ids = append(ids, k)
		}
	}
	if len(ids) == 0 || !t.lookUp(&found, tr, ids, look) {
		return r, false
	}
	t.RecordEnd(r, false, now)
	found.Echoes = t.indexRequest(&found, r.req)
	return found, true
}

// hasCutNotice reports whether the first words of the user contain an agent's note about a cut history.
// cline cuts the history without a model, and keeps only the first words.
func hasCutNotice(req *wire.Request) bool {
	it, ok := opening(req)
	if !ok {
		return false
	}
	_, note, ok := strings.Cut(it.Text, "<SYSTEM_NOTICE>")
	return ok && strings.Contains(note, "context was compacted")
}

// findCutHistory finds a session with a cut history by its first words. If several sessions have the
// words, findCutHistory returns the only session whose newest request failed; otherwise the list is a
// new session.
func (t *Threader) findCutHistory(r *Resolved, req *wire.Request, look Lookup) bool {
	if !hasCutNotice(req) {
		return false
	}
	key, ok := firstWordsKey(r.scope, req)
	if !ok {
		return false
	}
	var ids []ID
	for _, o := range t.index.owners(key) {
		ids = append(ids, o.id)
	}
	if len(ids) == 0 && look != nil {
		ids = look([]EchoKey{key})[key]
	}
	if len(ids) > 1 {
		ids = slices.DeleteFunc(ids, func(id ID) bool { return !t.failed(id) })
	}
	if len(ids) != 1 {
		return false
	}
	r.Method = ByEcho
	t.join(r, ids[0])
	return true
}

// findGrownTranscript assigns the request to the conversation that its single message continues, and
// stores the new length. Of several equal conversations, Doubt names all.
func (t *Threader) findGrownTranscript(r *Resolved, req *wire.Request) bool {
	text := onlyText(req)
	if text == "" {
		return false
	}
	r.transcript = r.transcriptKey(req.SystemHash, text)
	ids := t.transcripts.candidatesOf(r, text)
	if len(ids) == 0 {
		return false
	}
	if len(ids) > 1 {
		r.Doubt = ids
	}
	r.Method = ByEcho
	t.join(r, ids[0])
	return true
}
