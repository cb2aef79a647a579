package session

import (
	"sync"
	"time"
)

// Threader finds a request's session. It is bounded, safe for concurrent use, and does no I/O.
type Threader struct {
	index       *index
	transcripts *transcripts
	entropy     func() [16]byte

	mu    sync.Mutex // guards heads; index and transcripts have their own locks and are never used under mu
	heads heads
}

// NewThreader returns an empty Threader. entropy returns random bytes for a new session's name.
func NewThreader(entropy func() [16]byte) *Threader { return newThreader(entropy, 400_000, 65_536) }

func newThreader(entropy func() [16]byte, echoes, sessions int) *Threader {
	return &Threader{
		index:       newIndex(echoes),
		entropy:     entropy,
		heads:       newHeads(sessions),
		transcripts: &transcripts{known: newRecent[transcriptKey, []*transcript](maxTranscriptKeys)},
	}
}

// RecordEnd records that a request has ended, with or without a complete reply. Call it once for each Resolve.
func (t *Threader) RecordEnd(r Resolved, complete bool, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.heads.get(r.ID)
	if h == nil {
		return
	}
	h.lastActive, h.hasReply = now, h.hasReply || complete
	if h.list.hash == r.list.hash && h.inFlight > 0 {
		h.inFlight--
	}
}

// RecordRefusal records that the upstream refused the request's credential, so the same first request with a new
// credential counts as a retry. Call RecordRefusal before RecordEnd.
func (t *Threader) RecordRefusal(r Resolved) {
	if r.Method != ByNew || r.list.hash == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heads.add(startKey{r.scope, r.list.hash}.anyCredential(), unnamedStart{r.ID, r.Name}, r.receivedAt)
}

// countReply counts a complete reply in the conversation, and returns the reply's number.
func (t *Threader) countReply(r *Resolved) stamp {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.heads.getOrAdd(r.ID)
	h.replies++
	h.replyContinued, h.hasReply = false, true
	return h.replies &^ stampKind
}

// assign assigns the request to a known session. Resolve's caller reads the name from the record.
func (t *Threader) assign(r *Resolved, id ID) {
	r.ID, r.Name = id, ""
	t.continueConversation(r)
}

func (t *Threader) continueConversation(r *Resolved) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heads.continueHead(r)
}

func (t *Threader) hasReplied(id ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.heads.get(id)
	return h != nil && h.replies > 0
}

// hasFailed reports whether the session's newest request ended without a complete reply.
func (t *Threader) hasFailed(id ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.heads.get(id)
	return h != nil && h.replyContinued && h.inFlight == 0
}

// Lookup asks the store which sessions have the keys, newest session first. Resolve calls it without a lock, with keys
// that the Threader's index lacks. Lookup may be nil.
type Lookup func(keys []EchoKey) map[EchoKey][]ID
