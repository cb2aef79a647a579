package session

import (
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"precept/internal/wire"
)

// Resolve finds the session of a request by the first rule that applies: the claimed name, the
// continued reply, the echoes, a repeated first request. Otherwise the session is new.
func (t *Threader) Resolve(sc Scope, c Claim, req *wire.Request, now time.Time, look Lookup) Resolved {
	r := Resolved{scope: sc, at: now}
	if req == nil {
		if c.Session != "" {
			r.named(c)
		} else {
			t.begin(&r, c)
		}
		return r
	}
	r.list, r.req, r.prefill = req.ListHash, req, req.Prefilled()
	if r.items = req.End(); r.items > 0 {
		r.last = itemKey(req, r.items-1)
	}
	loose, tr := c.loose(), &trail{r: &r, claim: c}
	switch {
	case c.Session != "" && !loose:
		r.named(c)
		t.goOn(&r)
	case t.follow(&r, tr, look):
	case t.refreshed(&r, tr):
	case loose && t.fits(&r, c, req):
	case t.shortened(&r, req, look):
	case t.grown(&r, req):
	default:
		t.begin(&r, c)
		t.transcripts.begin(&r, req)
	}
	r.Echoes = t.note(&r, req)
	return r
}

// fits assigns the request to its loose name, a name that may stand for a whole application, where
// the request continues the newest request under the name or nothing is known of the name. Lists
// that share nothing are separate conversations.
func (t *Threader) fits(r *Resolved, c Claim, req *wire.Request) bool {
	id := r.scope.idOf(c.Space, c.Session)
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.heads.get(id); h != nil && !h.accepts(req, c.Retry) {
		return false
	}
	r.named(c)
	r.Loose = true
	t.heads.goOn(r)
	return true
}

// Apart returns a session of its own for a request that shares nothing with the session under its
// loose name.
func (t *Threader) Apart(r Resolved, c Claim, now time.Time) Resolved {
	t.Ended(r, false, now)
	r.Loose = false
	t.begin(&r, c)
	r.Echoes = t.note(&r, r.req)
	return r
}

// begin opens a session, or returns the session of the same first request that failed a moment ago.
func (t *Threader) begin(r *Resolved, c Claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.Method = ByNew
	key := startKey{r.scope, r.list}
	s, known, sure := t.heads.again(key, c.Retry, r.at)
	if !known {
		s, known, sure = t.heads.again(key.anyCredential(), false, r.at)
	}
	if known {
		if !sure {
			r.Doubt = []ID{s.id}
		}
		r.ID, r.Name = s.id, s.name
		t.heads.goOn(r)
		return
	}
	random := t.entropy()
	r.Name = "s_" + hex.EncodeToString(random[:])
	r.ID, r.New = r.scope.idOf(SpaceName, r.Name), true
	t.heads.goOn(r)
	if r.list != 0 {
		t.heads.begin(key, start{r.ID, r.Name}, r.at)
	}
}

// Below returns the session of a sub-agent whose request came under the name of another
// conversation, the parent. The echoes of the request identify the session; with first, where
// nothing ties the request to the parent, the session may be new. Otherwise ok is false, and the
// request is a side request of the parent.
func (t *Threader) Below(parent Resolved, c Claim, first bool, now time.Time, look Lookup) (r Resolved, ok bool) {
	req := parent.req
	c.Session, c.Space, c.Method = "", "", ""
	r = Resolved{scope: parent.scope, at: now, req: req, list: parent.list, items: parent.items, last: parent.last}
	r.scope.Run = parent.ID.String()
	tr := &trail{r: &r, claim: c, except: parent.ID}
	switch {
	case t.follow(&r, tr, look):
	case t.refreshed(&r, tr):
	case first:
		t.begin(&r, c)
	default:
		return r, false
	}
	t.Ended(parent, false, now)
	r.Echoes = t.note(&r, req)
	return r, true
}

// FindLost returns the session of a request whose own session, of r, began without an answer from the
// store. Only random ids count: by texts and counted ids the request could join the session of another
// conversation.
func (t *Threader) FindLost(r Resolved, c Claim, now time.Time, look Lookup) (found Resolved, ok bool) {
	found = Resolved{scope: r.scope, at: now, req: r.req, list: r.list, items: r.items, last: r.last, prefill: r.prefill}
	tr := &trail{r: &found, claim: c, except: r.ID}
	var ids []trailKey
	for k := range tr.keys {
		if !k.weak && !k.unique {
			ids = append(ids, k)
		}
	}
	if len(ids) == 0 || !t.lookUp(&found, tr, ids, look) {
		return r, false
	}
	t.Ended(r, false, now)
	found.Echoes = t.note(&found, r.req)
	return found, true
}

// noticed reports whether the first words of the user contain an agent's note that the history was
// cut. cline cuts the history without asking a model, and nothing else of the history remains.
func noticed(req *wire.Request) bool {
	it, ok := opening(req)
	if !ok {
		return false
	}
	_, note, ok := strings.Cut(it.Text, "<SYSTEM_NOTICE>")
	return ok && strings.Contains(note, "context was compacted")
}

// shortened finds the session whose history the agent has cut, by its first words. Of several
// sessions with these words, shortened takes the only one whose newest request failed; otherwise
// the list is a session of its own.
func (t *Threader) shortened(r *Resolved, req *wire.Request, look Lookup) bool {
	if !noticed(req) {
		return false
	}
	key, ok := beginning(r.scope, req)
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

// grown finds the conversation that the single message of the request continues, and stores the new
// length. Several equal conversations leave the session in doubt.
func (t *Threader) grown(r *Resolved, req *wire.Request) bool {
	text := onlyText(req)
	if text == "" {
		return false
	}
	r.transcript = r.transcriptKey(req.SystemHash, text)
	ids := t.transcripts.goOn(r, text)
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
