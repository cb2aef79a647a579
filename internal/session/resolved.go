package session

import (
	"time"

	"precept/internal/wire"
)

// Resolved is the session of a request. Pass the Resolved to Replied and Ended.
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

// key returns the echo key of a thing in this conversation. A random id has one key for all clients of
// the tenant. Things that repeat in every run get a key that depends on the credential and on the topic
// of the conversation.
func (r *Resolved) key(k string) EchoKey {
	if !repeats(k) {
		return EchoKeyOf(r.scope.Tenant, k)
	}
	return echoKey(r.scope, k, r.about())
}

// detail returns the key, for all clients of the tenant, of a thing that repeats in every run. A detail
// only separates sessions that another key has found.
func (r *Resolved) detail(what string) EchoKey {
	return echoKey(r.scope.anyCredential(), what, r.about())
}

// about returns a hash of the topic of the conversation.
func (r *Resolved) about() uint64 {
	if !r.knowsContext && r.req != nil {
		r.context, r.knowsContext = r.scope.about(r.req), true
	}
	return r.context
}

// LetGo releases the request. Replied needs the topic, so LetGo computes the topic first. The bytes
// of the request are not read afterwards.
func (r *Resolved) LetGo() {
	r.about()
	r.req = nil
}

func (r *Resolved) named(c Claim) {
	r.ID, r.Name, r.Method = r.scope.idOf(c.Space, c.Session), c.Session, c.Method
}

// transcriptKey is what all texts of a conversation have in common.
type transcriptKey struct {
	scope        Scope
	system, head uint64
}
