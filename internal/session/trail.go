package session

import (
	"cmp"
	"strconv"

	"precept/internal/wire"
)

// trail yields the keys of a request in the order of the look-up: the id of the previous reply, the
// echoes (ids and texts that the agent sends back) from the newest item to the oldest, a summary at
// the beginning of the list, and the newest answer.
type trail struct {
	resolved  *Resolved // session of the request so far
	claim     Claim
	excluded  ID  // session that the trail ignores, because the index has the request's keys under this session already
	maxEchoes int // maximum number of echoes; 0 means maxTrail
}

// trailKey is a key of a trail.
type trailKey struct {
	key    EchoKey
	method Method // method of a session found by the key
	weak   bool   // the item may occur in every run of the agent
	unique bool   // the key counts only if one of its sessions fits the request better than all others; see candidates
}

// keys yields the keys one by one, because the first key nearly always decides.
func (t *trail) keys(yield func(trailKey) bool) {
	sc := t.resolved.scope
	if t.claim.Previous != "" && !yield(trailKey{key: t.resolved.key("r:" + t.claim.Previous), method: ByBody}) {
		return
	}
	if t.claim.Namespace != NamespaceConversation { // the provider keeps such a conversation, and only a reply id is better evidence than its name
		yielded, limit := 0, cmp.Or(t.maxEchoes, maxTrail)
		for i := t.resolved.req.Len() - 1; i >= t.oldest() && yielded < limit; i-- {
			echoes := t.resolved.req.EchoKeys(i)
			for _, k := range echoes[:min(len(echoes), maxTrail)] { // an answer may contain thousands of calls
				yielded++
				if !yield(trailKey{key: t.resolved.key(k), method: ByEcho, weak: mayRepeat(k)}) {
					return
				}
			}
		}
		for _, k := range openingSummaryKeys(sc, t.resolved.req) {
			if !yield(trailKey{key: k, method: ByEcho}) {
				return
			}
		}
	}
	for _, k := range t.newestAnswerKeys() {
		if !yield(trailKey{key: k, method: ByEcho, unique: true}) {
			return
		}
	}
}

// oldest returns the index of the oldest item that the trail reads.
func (t *trail) oldest() int { return max(0, t.resolved.req.Len()-maxSearchedItems) }

// olderThan returns the keys of the trail that are older than k.
func (t *trail) olderThan(k EchoKey) (older []EchoKey) {
	passed := false
	for x := range t.keys {
		if passed {
			older = append(older, x.key)
		}
		passed = passed || x.key == k
	}
	return older
}

// longAnswer is the minimum length, in bytes, of a text or of the arguments of a call that
// identifies a conversation.
const longAnswer = 64

// newestAnswerKeys returns the keys of the newest answer. These keys do not depend on the beginning of
// the conversation: a program may rewrite its first message in every turn (retrieved documents, an
// earlier plan) and replace missing ids of calls.
func (t *trail) newestAnswerKeys() []EchoKey {
	if t.resolved.req.Delta {
		return nil
	}
	for i := t.resolved.req.End() - 1; i >= max(t.oldest(), t.resolved.req.FirstNew()-maxItemsBefore); i-- {
		if t.resolved.req.Role(i) != wire.RoleAssistant {
			continue
		}
		it := t.resolved.req.Item(i)
		if keys := answerKeys(t.resolved.scope, it.Text, it.Calls); len(keys) > 0 {
			return keys
		}
	}
	return nil
}

// answerKeys returns the keys of an answer by its text, or by the arguments of its calls. Short
// answers have no key.
func answerKeys(sc Scope, text string, calls []wire.Call) []EchoKey {
	var keys []EchoKey
	if len(calls) == 0 && len(text) >= longAnswer {
		keys = append(keys, echoKey(sc, "a:"+wire.TextEchoHash(text), 0))
	}
	for n := range calls[:min(len(calls), 4)] {
		if len(calls[n].Args) >= longAnswer {
			keys = append(keys, echoKey(sc, "a:"+wire.CallEchoHash(&calls[n]), 0))
		}
	}
	return keys
}

// details returns keys that separate runs with the same counted ids, newest first: calls, results and words
// of the user, without new content of the request, which no session has yet. An agent may change the
// wording, so details are compared only if several sessions remain.
func (t *trail) details() (keys []EchoKey) {
	for i := t.resolved.req.Len() - 1; i >= t.oldest() && len(keys) < maxTrail; i-- {
		it := t.resolved.req.Item(i)
		for c := range it.Calls[:min(len(it.Calls), maxTrail)] {
			keys = append(keys, t.resolved.detailKey("d:"+wire.CallEchoHash(&it.Calls[c])))
		}
		if i < t.resolved.req.FirstNew() && (it.Role == wire.RoleUser || it.Role == wire.RoleTool) {
			keys = append(keys, t.resolved.detailKey("h:"+strconv.FormatUint(t.resolved.req.Hash(i), 16)))
		}
	}
	return keys
}
