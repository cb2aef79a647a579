package session

import (
	"cmp"
	"strconv"

	"precept/internal/wire"
)

// trail yields a request's keys in look-up order: the previous reply's id, the echoes (ids and texts that the agent
// sends back) from the newest on, a summary that begins the list, and the newest answer.
type trail struct {
	resolved  *Resolved // request's session so far
	claim     Claim
	excluded  ID  // session to ignore even if it has the request's keys
	maxEchoes int // 0 means maxTrail
}

// trailKey is an echo key, and how the key may be used.
type trailKey struct {
	key    EchoKey
	method Method // Resolved.Method if the key finds a session
	weak   bool   // every run of the agent may have the key
	unique bool   // the key counts only if one session matches best; see candidates
}

// keys yields the keys in look-up order. The first key nearly always finds the session, so the other keys are rarely
// computed.
func (t *trail) keys(yield func(trailKey) bool) {
	sc := t.resolved.scope
	if t.claim.Previous != "" && !yield(trailKey{key: t.resolved.key("r:" + t.claim.Previous), method: ByBody}) {
		return
	}
	if t.claim.Namespace != NamespaceConversation { // a conversation object's name is better evidence
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

func (t *trail) oldest() int { return max(0, t.resolved.req.Len()-maxSearchedItems) }

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

const minAnswerKeyBytes = 64 // a text of this length, or a call's arguments, identify a conversation

// newestAnswerKeys returns keys for the newest answer. They do not depend on the first message, which a program may
// rewrite every turn.
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

// answerKeys returns keys for an answer's text, or for the calls' arguments, unless they are short.
func answerKeys(sc Scope, text string, calls []wire.Call) []EchoKey {
	var keys []EchoKey
	if len(calls) == 0 && len(text) >= minAnswerKeyBytes {
		keys = append(keys, echoKey(sc, "a:"+wire.TextEchoHash(text), 0))
	}
	for n := range calls[:min(len(calls), 4)] {
		if len(calls[n].Args) >= minAnswerKeyBytes {
			keys = append(keys, echoKey(sc, "a:"+wire.CallEchoHash(&calls[n]), 0))
		}
	}
	return keys
}

// details returns the detail keys for calls, results and the user's words, newest first. They distinguish conversations
// with the same counted ids (such as "call_1"). New content has no key, because no session has it yet. An agent may
// reword the history, so details are compared only if several sessions match the request.
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
