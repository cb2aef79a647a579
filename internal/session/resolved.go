package session

import (
	"time"

	"precept/internal/wire"
)

// Resolved is a request's session, and how Resolve found it. Pass the value to RecordReply and RecordEnd.
type Resolved struct {
	ID            ID
	Name          string // from the client, else from precept
	Method        Method
	New           bool      // this request begins the session
	SharedName    bool      // several conversations may have the name; see Record.SharesItemsWith
	Echoes        []EchoKey // new keys, to be stored for other replicas
	EqualSessions []ID      // sessions with equal histories that match the request, including the chosen session

	scope             Scope
	receivedAt        time.Time
	req               *wire.Request
	list              listDigest
	topic             topic
	byRepeatedContent bool          // the session was found by content that every run of the agent has
	transcript        transcriptKey // set for a request with a single growing message
	prefill           string        // beginning of the answer, from the client
}

// listDigest describes a request's message list.
type listDigest struct {
	hash  uint64
	items int
	last  uint64 // last item's key
}

type topic struct { // see Scope.topic; computed at the first use
	hash  uint64
	known bool
}

// key returns the echo key for k. A random id has one key per tenant. Other content has a key per credential and
// conversation topic.
func (r *Resolved) key(k string) EchoKey {
	if !mayRepeat(k) {
		return TenantEchoKey(r.scope.Tenant, k)
	}
	return echoKey(r.scope, k, r.topicHash())
}

// detailKey returns the key for a detail: content that may repeat, and only decides between sessions that were found by
// another key. The key is the same for all clients in the tenant.
func (r *Resolved) detailKey(content string) EchoKey {
	return echoKey(r.scope.anyCredential(), content, r.topicHash())
}

func (r *Resolved) topicHash() uint64 {
	if !r.topic.known && r.req != nil {
		r.topic = topic{r.scope.topic(r.req), true}
	}
	return r.topic.hash
}

// Release drops the request, so that the caller can reuse the body. It first computes the topic, which RecordReply
// needs.
func (r *Resolved) Release() {
	r.topicHash()
	r.req = nil
}

func (r *Resolved) useClaimedName(c Claim) {
	r.ID, r.Name, r.Method = r.scope.scopedID(c.Namespace, c.Session), c.Session, c.Method
}

// transcriptKey holds the scope and two hashes: for the system prompt, and for the beginning of the only message.
type transcriptKey struct {
	scope        Scope
	system, head uint64
}
