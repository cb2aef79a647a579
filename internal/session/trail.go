package session

import (
	"strconv"

	"precept/internal/wire"
)

// trail is what a request may be known by: the reply that it names, then what it echoes, newest
// first, then the summary that it may begin with, then its newest answer.
type trail struct {
	r      *Resolved
	claim  Claim
	except ID // whose request it is not: what a request shows is noted under its name before this is known
}

// trailKey is one key of a trail.
type trailKey struct {
	EchoKey
	method Method // what it proves
	weak   bool   // the thing comes again in every run
	unique bool   // it says little: it counts where one session alone has it, and waits for a request
}

// keys yields them. It is lazy, because the first key is nearly always the one.
func (t *trail) keys(yield func(trailKey) bool) {
	sc := t.r.scope
	if t.claim.Previous != "" && !yield(trailKey{EchoKey: echoKey(sc, "r:"+t.claim.Previous, 0), method: ByBody}) {
		return
	}
	if t.claim.Space != SpaceConversation { // else the provider keeps the history: only a reply id is stronger
		given := 0
		for i := t.r.req.Len() - 1; i >= t.oldest() && given < maxTrail; i-- {
			echoes := t.r.req.Echo(i)
			for _, k := range echoes[:min(len(echoes), maxTrail)] { // one answer may hold thousands of calls
				given++
				if !yield(trailKey{EchoKey: t.r.key(k), method: ByEcho, weak: repeats(k)}) {
					return
				}
			}
		}
		for _, k := range summaryShown(sc, t.r.req) {
			if !yield(trailKey{EchoKey: k, method: ByEcho}) {
				return
			}
		}
	}
	for _, k := range t.answer() {
		if !yield(trailKey{EchoKey: k, method: ByEcho, unique: true}) {
			return
		}
	}
}

// oldest is the first item that is looked at.
func (t *trail) oldest() int { return max(0, t.r.req.Len()-maxLook) }

// behind gives the keys that stand behind one of them.
func (t *trail) behind(k EchoKey) (older []EchoKey) {
	passed := false
	for x := range t.keys {
		if passed {
			older = append(older, x.EchoKey)
		}
		passed = passed || x.EchoKey == k
	}
	return older
}

// longAnswer is how many bytes of text, or of a call's arguments, are taken for one conversation's
// own.
const longAnswer = 64

// answer are the keys of the newest answer without what the conversation began with: a program may
// write its first message anew in every turn (retrieved documents, a plan made before), and give
// ids of its own to calls that had none.
func (t *trail) answer() []EchoKey {
	if t.r.req.Delta {
		return nil
	}
	for i := t.r.req.End() - 1; i >= max(t.oldest(), t.r.req.New()-maxBack); i-- {
		if t.r.req.Role(i) != wire.RoleAssistant {
			continue
		}
		it := t.r.req.Item(i)
		if keys := answerKeys(t.r.scope, it.Text, it.Calls); len(keys) > 0 {
			return keys
		}
	}
	return nil
}

// answerKeys are the keys of an answer by its text, or by what its calls ask for; of short ones
// there are none.
func answerKeys(sc Scope, text string, calls []wire.Call) []EchoKey {
	var keys []EchoKey
	if len(calls) == 0 && len(text) >= longAnswer {
		keys = append(keys, echoKey(sc, "a:"+wire.EchoText(text), 0))
	}
	for n := range calls[:min(len(calls), 4)] {
		if len(calls[n].Args) >= longAnswer {
			keys = append(keys, echoKey(sc, "a:"+wire.EchoCall(&calls[n]), 0))
		}
	}
	return keys
}

// details are the keys of what tells runs apart whose ids are counted, newest first: what was
// called, what came back, what the user said. What is new in the request went by in no session that
// it could belong to. An agent may word them anew, so they are asked only where several sessions
// are left.
func (t *trail) details() (keys []EchoKey) {
	for i := t.r.req.Len() - 1; i >= t.oldest() && len(keys) < maxTrail; i-- {
		it := t.r.req.Item(i)
		for c := range it.Calls[:min(len(it.Calls), maxTrail)] {
			keys = append(keys, t.r.detail("d:"+wire.EchoCall(&it.Calls[c])))
		}
		if i < t.r.req.New() && (it.Role == wire.RoleUser || it.Role == wire.RoleTool) {
			keys = append(keys, t.r.detail("h:"+strconv.FormatUint(t.r.req.Hash(i), 16)))
		}
	}
	return keys
}
