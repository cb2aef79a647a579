package session

import (
	"encoding/hex"
	"strconv"
	"sync"
	"time"

	"precept/wire"
)

// Options of a Threader.
type Options struct {
	Echoes   int             // how many keys are remembered; 400,000 when 0
	Sessions int             // of how many sessions it is known how far they are; 65,536 when 0
	Entropy  func() [16]byte // for the names of new sessions
}

// Threader finds the session of a request. It is bounded, safe for concurrent use, and does no I/O
// of its own.
type Threader struct {
	index   *index
	growths *growths
	entropy func() [16]byte

	mu     sync.Mutex // guards heads and starts; the others have their own locks and are never asked under mu
	heads  heads
	starts starts
}

// NewThreader makes an empty one.
func NewThreader(o Options) *Threader {
	if o.Echoes <= 0 {
		o.Echoes = 400_000
	}
	if o.Sessions <= 0 {
		o.Sessions = 65_536
	}
	return &Threader{
		index:   newIndex(o.Echoes),
		entropy: o.Entropy,
		heads:   newHeads(o.Sessions),
		starts:  newStarts(min(o.Sessions, 8192)),
		growths: newGrowths(),
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
	req          *wire.Request // until LetGo
	context      uint64        // what the conversation is about, once known
	knowsContext bool          // context is known
	weak         bool          // it was found by what comes again in every run
	list         uint64
	items        int
	last         uint64
	start        bool    // the request stands in the table of first requests
	grow         growKey // where the conversation stands among those that grow in one message
	begun        string  // what the client has begun of the answer
}

// Lookup asks the store which sessions own the keys, newest first. It is called at most once a
// request, without any lock held, and only when memory knows none of them. It may be nil.
type Lookup func(keys []EchoKey) map[EchoKey][]ID

// Resolve finds the session of a request, in the order: the name it claims, the reply that it
// continues, what it echoes, a first request that is being sent again; else the session is new.
func (t *Threader) Resolve(sc Scope, c Claim, req *wire.Request, now time.Time, look Lookup) Resolved {
	r := Resolved{scope: sc}
	if req == nil {
		if c.Session != "" {
			r.named(sc, c)
		} else {
			t.begin(&r, c, now)
		}
		return r
	}
	r.list, r.req = req.ListHash, req
	if r.items = req.End(); r.items > 0 {
		r.last = itemKey(req, r.items-1)
	}
	r.begun = req.Prefilled()
	loose := c.loose()
	switch {
	case c.Session != "" && !loose:
		r.named(sc, c)
		t.markTaken(&r)
	case t.follow(&r, c, newTrail(&r, c, req), look):
	case loose && t.fits(&r, c, req):
	case t.shortened(&r, req, look):
	case t.grown(&r, req):
	default:
		t.begin(&r, c, now)
		t.growths.begun(&r, req)
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

func (r *Resolved) named(sc Scope, c Claim) {
	r.ID, r.Name, r.Method = sc.idOf(c.Space, c.Session), c.Session, c.Method
}

// fits names the session by a name that may stand for a whole application, where the request goes
// on with what the name stood for last, or where nothing is known of it. Lists that share nothing
// are conversations of their own.
func (t *Threader) fits(r *Resolved, c Claim, req *wire.Request) bool {
	id := r.scope.idOf(c.Space, c.Session)
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.heads.get(id); h != nil && !h.continued(req, c.Retry) {
		return false
	}
	r.named(r.scope, c)
	r.Loose = true
	t.heads.markTaken(r)
	return true
}

// Apart is the session of its own of a request that shares nothing with what is stored under its
// loose name.
func (t *Threader) Apart(r Resolved, c Claim, now time.Time) Resolved {
	t.Ended(r, false, now)
	r.Loose = false
	t.begin(&r, c, now)
	r.Echoes = t.note(&r, r.req)
	return r
}

// begin opens a session, or finds the one that the same first request opened when it failed a
// moment ago.
func (t *Threader) begin(r *Resolved, c Claim, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := startKey{r.scope, r.list}
	r.start = r.list != 0
	if r.start {
		if s, sure := t.starts.again(key, c.Retry, now); s != nil {
			if !sure {
				r.Doubt = []ID{s.id}
			}
			s.flying++
			s.at = now
			r.ID, r.Name, r.Method = s.id, s.name, ByNew
			t.heads.markTaken(r)
			return
		}
	}
	random := t.entropy()
	r.Name = "s_" + hex.EncodeToString(random[:])
	r.ID, r.Method, r.New = r.scope.idOf(SpaceName, r.Name), ByNew, true
	t.heads.markTaken(r)
	if r.start {
		t.starts.add(key, &start{id: r.ID, name: r.Name, at: now, flying: 1})
	}
}

// Below finds the session of a request that came under the name of another conversation and is none
// of it: a sub-agent's. It is known by its echo, and where first says that nothing ties it to the
// other one, it may be new. ok is false where neither holds; parent then stays what the request is
// beside of.
func (t *Threader) Below(parent Resolved, c Claim, first bool, now time.Time, look Lookup) (r Resolved, ok bool) {
	req := parent.req
	c.Session, c.Space, c.Method = "", "", ""
	r = Resolved{scope: parent.scope, req: req, list: parent.list, items: parent.items, last: parent.last}
	r.scope.Run = parent.ID.String()
	tr := newTrail(&r, c, req)
	tr.except = parent.ID
	switch {
	case t.follow(&r, c, tr, look):
	case first:
		t.begin(&r, c, now)
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

// firstWords is a hash of the first thing that the user said: what a conversation is about. It is 0
// in a request that does not show its beginning.
func firstWords(req *wire.Request) uint64 {
	if req.Delta {
		return 0
	}
	for i := range min(req.Len(), maxFront) {
		if req.Role(i) != wire.RoleUser { // the system prompt may be long
			continue
		}
		it := req.Item(i)
		if it.Words == "" {
			continue
		}
		// The ends and the length are enough; a pasted book need not be hashed in every turn.
		w := it.Words
		h := addText(noText, w[:min(len(w), maxWords)])
		return addText(h, w[max(0, len(w)-maxWords):]) + uint64(len(w))
	}
	return 0
}

// about is what a conversation is about, in whose run.
func (sc Scope) about(req *wire.Request) uint64 {
	words := firstWords(req)
	if sc.Run == "" {
		return words
	}
	return addText(words^noText, sc.Run)
}

// note indexes what the request shows of the session, newest first, up to what is known already. It
// returns what looks random: a text or a "call_1" counts for this process only, and little.
func (t *Threader) note(r *Resolved, req *wire.Request) []EchoKey {
	if r.Method.named() && t.spoke(r.ID) {
		return nil // it comes back with its name, and its replies are known
	}
	kind, oldest := stampRequest, max(0, req.Len()-maxLook)
	var news []EchoKey
	if r.New {
		kind = stampPast
		if key, ok := beginning(r.scope, req); ok && t.index.add(key, owner{r.ID, kind}) {
			news = append(news, key)
		}
	} else {
		oldest = max(oldest, req.New()-maxBack)
	}
	seen := 0
	for i := req.Len() - 1; i >= oldest && seen < maxTrail; i-- {
		echoes := req.Echo(i)
		for _, k := range echoes[:min(len(echoes), maxTrail)] {
			seen++
			key := r.key(k)
			if k[0] == 't' || !random(k) {
				t.index.add(key, owner{r.ID, stampWeak})
				continue
			}
			if !t.index.add(key, owner{r.ID, kind}) {
				return news
			}
			news = append(news, key)
		}
	}
	if r.weak {
		t.noteDetails(r, req)
	}
	return news
}

// noteDetails indexes what is new in a request and tells its run from others whose ids are counted
// as well.
func (t *Threader) noteDetails(r *Resolved, req *wire.Request) {
	for i := max(req.New(), req.Len()-maxBack); i < req.Len(); i++ {
		if it := req.Item(i); it.Role == wire.RoleUser || it.Role == wire.RoleTool {
			t.index.add(r.detail("h:"+strconv.FormatUint(req.Hash(i), 16)), owner{r.ID, stampRequest})
		}
	}
}

// spoke says whether a reply of the session went by here.
func (t *Threader) spoke(id ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.heads.get(id)
	return h != nil && h.replies > 0
}

// Replied notes a reply, and returns the keys to be stored. Call it before the last byte of the
// reply goes to the client: the next request may be here before this one has returned. main is
// false for a side request's reply, which says nothing of how far the session is.
func (t *Threader) Replied(r Resolved, rep *wire.Reply, main bool) []EchoKey {
	kind := stampRequest
	if main && rep.Complete {
		kind = stampReply | t.advance(r)
		t.growths.answered(&r, rep.Text)
	}
	var news []EchoKey
	named := r.Method.named()
	// These first: whoever finds the call's id finds them as well.
	for i := range rep.Calls[:min(len(rep.Calls), maxTrail)] {
		if c := &rep.Calls[i]; !named && c.ID != "" && !random("c:"+c.ID) {
			t.index.add(r.detail("d:"+wire.EchoCall(c)), owner{r.ID, kind})
		}
	}
	for _, k := range wire.EchoReply(rep, r.begun) {
		if named && k[0] == 't' {
			continue // it comes back with its name; a text alone is the weakest of echoes
		}
		key := r.key(k)
		if t.index.add(key, owner{r.ID, kind}) {
			news = append(news, key)
		}
	}
	if main && !named && rep.Complete && !rep.Cut {
		for _, key := range answerKeys(r.scope, r.begun+rep.Text, rep.Calls) {
			if t.index.add(key, owner{r.ID, kind}) {
				news = append(news, key)
			}
		}
	}
	if !main && !named && rep.Complete {
		for _, key := range summaryKeys(r.scope, rep.Text, summaryGiven) {
			if t.index.add(key, owner{r.ID, stampRequest}) {
				news = append(news, key)
			}
		}
	}
	return news
}

// Summed notes the reply to a side call about a session that was found by nothing but what it
// shows: the session may go on from a summary.
func (t *Threader) Summed(r Resolved, id ID, rep *wire.Reply) {
	if !rep.Complete {
		return
	}
	for _, key := range summaryKeys(r.scope, rep.Text, summaryGiven) {
		t.index.add(key, owner{id, stampRequest})
	}
}

// Ended says that the request is over, with a complete reply or without. Call it once for every
// Resolve.
func (t *Threader) Ended(r Resolved, complete bool, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.heads.get(r.ID); h != nil {
		if h.at = now; h.list == r.list && h.flying > 0 {
			h.flying--
		}
	}
	if r.start {
		t.starts.ended(startKey{r.scope, r.list}, r.ID, complete, now)
	}
}

// advance counts a completed reply.
func (t *Threader) advance(r Resolved) stamp {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.heads.make(r.ID)
	h.replies++
	h.taken = false
	if r.start {
		t.starts.replied(startKey{r.scope, r.list}, r.ID)
	}
	return h.replies &^ stampKind
}
