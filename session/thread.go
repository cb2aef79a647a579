package session

import (
	"encoding/hex"
	"sync"
	"time"

	"precept/wire"
)

// Threader finds the session of a request. It is bounded, safe for concurrent use, and does no I/O
// of its own.
type Threader struct {
	index       *index
	transcripts *transcripts
	entropy     func() [16]byte

	mu    sync.Mutex // guards heads; the others have their own locks and are never asked under mu
	heads heads
}

// NewThreader makes an empty one. entropy names new sessions.
func NewThreader(entropy func() [16]byte) *Threader { return newThreader(entropy, 400_000, 65_536) }

// newThreader makes one that remembers so many keys, and of so many sessions how far they are.
func newThreader(entropy func() [16]byte, echoes, sessions int) *Threader {
	return &Threader{
		index:       newIndex(echoes),
		entropy:     entropy,
		heads:       newHeads(sessions),
		transcripts: &transcripts{recent: newRecent[transcriptKey, []*transcript](transcriptKeys)},
	}
}

// Resolved is the session of a request. Hand it back to Replied and Ended.
type Resolved struct {
	ID     ID
	Name   string // the client's own where it gave one, else ours
	Method Method
	New    bool      // a name of ours was just made: nothing is stored under it
	Loose  bool      // the name may stand for other conversations, too: compare with what is stored under it (Record.Shares)
	Echoes []EchoKey // keys of this request that were not known of the session: to be stored for other replicas
	Doubt  []ID      // sessions of which this may be any, itself among them: their histories are equal byte for byte

	scope        Scope
	at           time.Time
	req          *wire.Request // until LetGo
	context      uint64        // what the conversation is about, once known
	knowsContext bool          // context is known
	weak         bool          // it was found by what comes again in every run
	list         uint64        // hash of the request's list,
	items        int           // how many items that has,
	last         uint64        // and what the last one is
	transcript   transcriptKey // where it stands, when the request is one message that grows
	prefill      string        // what the client has begun of the answer
}

// Lookup asks the store which sessions own the keys, newest first. It is called at most once a
// request, without any lock held, and only when memory knows none of them. It may be nil.
type Lookup func(keys []EchoKey) map[EchoKey][]ID

// Resolve finds the session of a request, in the order: the name it claims, the reply that it
// continues, what it echoes, a first request that is being sent again; else the session is new.
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
	loose := c.loose()
	switch {
	case c.Session != "" && !loose:
		r.named(c)
		t.goOn(&r)
	case t.follow(&r, &trail{r: &r, claim: c, req: req}, look):
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

// key is the key of one thing in this conversation. What the conversation is about is looked up
// only for things that come again in every run.
func (r *Resolved) key(k string) EchoKey {
	if !repeats(k) {
		return echoKey(r.scope, k, 0)
	}
	return echoKey(r.scope, k, r.about())
}

// about is a hash of what the conversation is about.
func (r *Resolved) about() uint64 {
	if !r.knowsContext && r.req != nil {
		r.context, r.knowsContext = r.scope.about(r.req), true
	}
	return r.context
}

// LetGo takes out of the request what Replied may ask for. Its bytes are not read any more.
func (r *Resolved) LetGo() {
	r.about()
	r.req = nil
}

func (r *Resolved) named(c Claim) {
	r.ID, r.Name, r.Method = r.scope.idOf(c.Space, c.Session), c.Session, c.Method
}

// fits names the session by a name that may stand for a whole application, where the request goes
// on with what the name stood for last, or where nothing is known of it. Lists that share nothing
// are conversations of their own.
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

// Apart is the session of its own of a request that shares nothing with what is stored under its
// loose name.
func (t *Threader) Apart(r Resolved, c Claim, now time.Time) Resolved {
	t.Ended(r, false, now)
	r.Loose = false
	t.begin(&r, c)
	r.Echoes = t.note(&r, r.req)
	return r
}

// begin opens a session, or finds the one that the same first request opened when it failed a
// moment ago.
func (t *Threader) begin(r *Resolved, c Claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.Method = ByNew
	key := startKey{r.scope, r.list}
	if s, known, sure := t.heads.again(key, c.Retry, r.at); known {
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

// Below finds the session of a request that came under the name of another conversation and is none
// of it: a sub-agent's. It is known by its echo, and where first says that nothing ties it to the
// other one, it may be new. ok is false where neither holds; parent then stays what the request is
// beside of.
func (t *Threader) Below(parent Resolved, c Claim, first bool, now time.Time, look Lookup) (r Resolved, ok bool) {
	req := parent.req
	c.Session, c.Space, c.Method = "", "", ""
	r = Resolved{scope: parent.scope, at: now, req: req, list: parent.list, items: parent.items, last: parent.last}
	r.scope.Run = parent.ID.String()
	switch {
	case t.follow(&r, &trail{r: &r, claim: c, req: req, except: parent.ID}, look):
	case first:
		t.begin(&r, c)
	default:
		return r, false
	}
	t.Ended(parent, false, now)
	r.Echoes = t.note(&r, req)
	return r, true
}

// Bounds of the work on one request.
const (
	maxTrail = 32 // echoes looked at, newest first
	maxLook  = 96 // items looked at for them
	maxBack  = 8  // items before the new part in which something unknown is looked for
	maxFront = 16 // items looked at for the first words
	maxWords = 512
)

// opening is the first thing that the user says in a request that shows its beginning.
func opening(req *wire.Request) (it *wire.Item, ok bool) {
	if req.Delta {
		return it, false
	}
	for i := range min(req.Len(), maxFront) {
		if req.Role(i) != wire.RoleUser { // the system prompt may be long
			continue
		}
		if it = req.Item(i); it.Words != "" {
			return it, true
		}
	}
	return it, false
}

// firstWords is a hash of it: what a conversation is about. It is 0 where there is none.
func firstWords(req *wire.Request) uint64 {
	it, ok := opening(req)
	if !ok {
		return 0
	}
	// The ends and the length are enough; a pasted book need not be hashed in every turn.
	w := it.Words
	h := addText(noText, w[:min(len(w), maxWords)])
	return addText(h, w[max(0, len(w)-maxWords):]) + uint64(len(w))
}

// about is what a conversation is about, in whose run.
func (sc Scope) about(req *wire.Request) uint64 {
	words := firstWords(req)
	if sc.Run == "" {
		return words
	}
	return addText(words^noText, sc.Run)
}

// Ended says that the request is over, with a complete reply or without. Call it once for every
// Resolve.
func (t *Threader) Ended(r Resolved, complete bool, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.heads.get(r.ID)
	if h == nil {
		return
	}
	h.at, h.answered = now, h.answered || complete
	if h.list == r.list && h.inFlight > 0 {
		h.inFlight--
	}
}

// advance counts a complete reply.
func (t *Threader) advance(r *Resolved) stamp {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.heads.make(r.ID)
	h.replies++
	h.continued, h.answered = false, true
	return h.replies &^ stampKind
}
