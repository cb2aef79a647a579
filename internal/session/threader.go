package session

import (
	"sync"
	"time"
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
		transcripts: &transcripts{known: newRecent[transcriptKey, []*transcript](transcriptKeys)},
	}
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

// join takes the request for one of a session that is known. The caller of Resolve puts the stored
// name in its place when it has the record.
func (t *Threader) join(r *Resolved, id ID) {
	r.ID, r.Name = id, ""
	t.goOn(r)
}

func (t *Threader) goOn(r *Resolved) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heads.goOn(r)
}

// spoke says whether a reply of the session went by here.
func (t *Threader) spoke(id ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.heads.get(id)
	return h != nil && h.replies > 0
}

// failed says whether the session's newest request is over without a reply.
func (t *Threader) failed(id ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.heads.get(id)
	return h != nil && h.continued && h.inFlight == 0
}

// Lookup asks the store which sessions own the keys, newest first. It is called at most once a
// request, without any lock held, and only when memory knows none of them. It may be nil.
type Lookup func(keys []EchoKey) map[EchoKey][]ID
