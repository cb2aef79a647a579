package session

import (
	"time"

	"precept/internal/wire"
)

// Resolved is the session of a request. Pass the Resolved to RecordReply and RecordEnd.
type Resolved struct {
	ID            ID
	Name          string // name from the client, else from precept
	Method        Method
	New           bool      // precept has created the name for this request; no store has the session
	SharedName    bool      // several conversations may share the name; compare the request with the stored record (Record.SharesItemsWith)
	Echoes        []EchoKey // new keys of the request, to be stored for other replicas
	EqualSessions []ID      // sessions that fit the request equally, the chosen session included: their histories are equal byte for byte

	scope             Scope
	at                time.Time
	req               *wire.Request // nil after Release
	list              listMark
	topic             topic
	byRepeatedContent bool          // the session was found by content that repeats in every run
	transcript        transcriptKey // set for a request with a single message that grows
	prefill           string        // beginning of the answer, written by the client
}

// listMark identifies the list of a request.
type listMark struct {
	hash  uint64
	items int    // number of items
	last  uint64 // key of the last item
}

// topic is a hash of the first words of a conversation, computed at the first use.
type topic struct {
	hash  uint64
	known bool
}

// key returns the echo key of k in this conversation. A random id has one key for all clients of
// the tenant. The key of repeating content depends on the credential and on the topic of the
// conversation.
func (r *Resolved) key(k string) EchoKey {
	if !mayRepeat(k) {
		return EchoKeyOf(r.scope.Tenant, k)
	}
	return echoKey(r.scope, k, r.topicHash())
}

// detailKey returns the key of content that may repeat in another run, for all clients of the tenant. A
// detail never finds a session; it only separates sessions that another key has found.
func (r *Resolved) detailKey(content string) EchoKey {
	return echoKey(r.scope.anyCredential(), content, r.topicHash())
}

// topicHash returns a hash of the topic of the conversation.
func (r *Resolved) topicHash() uint64 {
	if !r.topic.known && r.req != nil {
		r.topic = topic{r.scope.topic(r.req), true}
	}
	return r.topic.hash
}

// Release releases the request. RecordReply needs the topic, so Release computes the topic first. The bytes
// of the request are not read afterwards.
func (r *Resolved) Release() {
	r.topicHash()
	r.req = nil
}

// useClaimedName assigns the request to the session that the client names.
func (r *Resolved) useClaimedName(c Claim) {
	r.ID, r.Name, r.Method = r.scope.scopedID(c.Namespace, c.Session), c.Session, c.Method
}

// transcriptKey is the shared part of all texts of a conversation.
type transcriptKey struct {
	scope        Scope
	system, head uint64
}
