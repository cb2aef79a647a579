package session

import (
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"precept/internal/wire"
)

// Resolve finds a request's session by the first rule that applies:
//   - the request has a name that only one conversation uses,
//   - the request names the previous reply,
//   - the request sends back a session's ids and texts (echoes),
//   - the request has a name that several conversations may share,
//   - the agent has shortened the history, and the user's first words are those of a known session,
//   - the request has a single message with the whole history, which continues a known message,
//   - the request repeats a first request that failed.
//
// Otherwise the session is new.
func (t *Threader) Resolve(sc Scope, c Claim, req *wire.Request, now time.Time, look Lookup) Resolved {
	r := Resolved{scope: sc, receivedAt: now}
	if req == nil {
		if c.Session != "" {
			r.useClaimedName(c)
		} else {
			t.openSession(&r, c)
		}
		return r
	}
	r.list, r.req, r.prefill = listDigest{hash: req.ListHash, items: req.End()}, req, req.Prefill()
	if n := r.list.items; n > 0 {
		r.list.last = itemKey(req, n-1)
	}
	shared, tr := c.hasSharedName(), &trail{resolved: &r, claim: c}
	switch {
	case c.Session != "" && !shared:
		r.useClaimedName(c)
		t.continueConversation(&r)
	case t.findByTrail(&r, tr, look):
	case t.findByCountedID(&r, tr):
	case shared && t.assignBySharedName(&r, c, req):
	case t.findCutHistory(&r, req, look):
	case t.findGrownTranscript(&r, req):
	default:
		t.openSession(&r, c)
		t.transcripts.add(&r, req)
	}
	r.Echoes = t.indexRequest(&r, req)
	return r
}

// assignBySharedName assigns the request to the session with the shared name. If this session exists and the request
// does not continue the session, two conversations use the name, and the result is false.
func (t *Threader) assignBySharedName(r *Resolved, c Claim, req *wire.Request) bool {
	id := r.scope.scopedID(c.Namespace, c.Session)
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.heads.get(id); h != nil && !h.isContinuedBy(req, c.Retry) {
		return false
	}
	r.useClaimedName(c)
	r.SharedName = true
	t.heads.continueHead(r)
	return true
}

// SplitSession returns a new session for a request that has nothing in common with the session under the same name.
func (t *Threader) SplitSession(r Resolved, c Claim, now time.Time) Resolved {
	t.RecordEnd(r, false, now)
	r.SharedName = false
	t.openSession(&r, c)
	r.Echoes = t.indexRequest(&r, r.req)
	return r
}

// openSession starts a session. If an identical first request failed within retryWindow, the request is a retry, and
// gets the same session.
func (t *Threader) openSession(r *Resolved, c Claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.Method = ByNew
	key := startKey{r.scope, r.list.hash}
	s, known, sure := t.heads.findRetry(key, c.Retry, r.receivedAt)
	if !known {
		s, known, sure = t.heads.findRetry(key.anyCredential(), false, r.receivedAt)
	}
	if known {
		if !sure {
			r.EqualSessions = []ID{s.id}
		}
		r.ID, r.Name = s.id, s.name
		t.heads.continueHead(r)
		return
	}
	random := t.entropy()
	r.Name = "s_" + hex.EncodeToString(random[:])
	r.ID, r.New = r.scope.scopedID(NamespaceSession, r.Name), true
	t.heads.continueHead(r)
	if r.list.hash != 0 {
		t.heads.add(key, unnamedStart{r.ID, r.Name}, r.receivedAt)
	}
}

// ResolveSubagent returns the session for a sub-agent that sends the parent session's name. This is a known session
// with the request's echoes or, for a first request, a new session. If ok is false, the request is a side request in
// the parent session.
func (t *Threader) ResolveSubagent(parent Resolved, c Claim, first bool, now time.Time, look Lookup) (r Resolved, ok bool) {
	req := parent.req
	c.Session, c.Namespace, c.Method = "", "", ""
	r = Resolved{scope: parent.scope, receivedAt: now, req: req, list: parent.list}
	r.scope.Run = parent.ID.String()
	tr := &trail{resolved: &r, claim: c, excluded: parent.ID}
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

// FindLostSession returns the stored session for a conversation that went on in a new session (r) because the store did
// not answer in time. It compares only random ids, because another conversation might have the same texts and counted
// ids (such as "call_1").
func (t *Threader) FindLostSession(r Resolved, c Claim, now time.Time, look Lookup) (found Resolved, ok bool) {
	found = Resolved{scope: r.scope, receivedAt: now, req: r.req, list: r.list, prefill: r.prefill}
	tr := &trail{resolved: &found, claim: c, excluded: r.ID, maxEchoes: maxSearchedItems}
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

func hasCutNotice(req *wire.Request) bool {
	it, ok := firstUserItem(req)
	if !ok {
		return false
	}
	_, note, ok := strings.Cut(it.Text, "<SYSTEM_NOTICE>")
	return ok && strings.Contains(note, "context was compacted")
}

// findCutHistory assigns a request with a shortened history to the session with the same first words. If several
// sessions have these words, the newest request must have failed in exactly one of the sessions, and this session is
// chosen.
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
		ids = slices.DeleteFunc(ids, func(id ID) bool { return !t.hasFailed(id) })
	}
	if len(ids) != 1 {
		return false
	}
	r.Method = ByEcho
	t.assign(r, ids[0])
	return true
}

// findGrownTranscript assigns a request with a single message to the conversation that the message continues. If
// several conversations match, r.EqualSessions lists them.
func (t *Threader) findGrownTranscript(r *Resolved, req *wire.Request) bool {
	text := onlyText(req)
	if text == "" {
		return false
	}
	r.transcript = r.transcriptKey(req.SystemHash, text)
	ids := t.transcripts.candidates(r, text)
	if len(ids) == 0 {
		return false
	}
	if len(ids) > 1 {
		r.EqualSessions = ids
	}
	r.Method = ByEcho
	t.assign(r, ids[0])
	return true
}
