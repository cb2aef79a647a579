package session

import (
	"strconv"

	"precept/wire"
)

// trail walks the keys under which a request may be known: the reply that it names, then what it
// echoes, newest first, then the summary that it may begin with. It is lazy, because the first key
// is nearly always the one.
type trail struct {
	r       *Resolved
	req     *wire.Request
	pending []trailKey
	named   bool // the first key is that of previous_response_id
	item    int  // the next to be looked at
	oldest  int
	given   int
	begun   bool // the summary's keys were given,
	lone    bool // and now come those that must be one session's alone
	older   []EchoKey
	except  ID // whose request it is not: what a request shows is noted under its name before this is known
	telling []EchoKey
}

// trailKey is one of them.
type trailKey struct {
	EchoKey
	weak bool // the thing comes again in every run
}

func strong(keys ...EchoKey) []trailKey {
	var out []trailKey
	for _, k := range keys {
		out = append(out, trailKey{EchoKey: k})
	}
	return out
}

func newTrail(r *Resolved, c Claim, req *wire.Request) *trail {
	t := &trail{r: r, req: req, item: req.Len() - 1, oldest: max(0, req.Len()-maxLook)}
	if c.Previous != "" {
		t.pending, t.named = strong(keyIn(r.scope, "r:"+c.Previous, 0)), true
	}
	if c.Space == SpaceConversation { // the provider keeps the history: only a reply id is stronger
		t.item, t.begun = -1, true
	}
	return t
}

func (t *trail) next() (trailKey, bool) {
	for len(t.pending) == 0 {
		if t.item < t.oldest || t.given >= maxTrail {
			switch {
			case t.lone:
				return trailKey{}, false
			case t.begun:
				t.lone = true
				t.pending = strong(t.answer()...)
			default:
				t.begun = true
				t.pending = strong(begunBy(t.r.scope, t.req)...)
			}
			continue
		}
		echoes := t.req.Echo(t.item)
		for _, k := range echoes[:min(len(echoes), maxTrail)] { // one answer may hold thousands of calls
			t.pending = append(t.pending, trailKey{t.r.key(k), repeats(k)})
		}
		t.item--
	}
	k := t.pending[0]
	t.pending = t.pending[1:]
	t.given++
	return k, true
}

// longAnswer is how many bytes of text, or of a call's arguments, are taken for one conversation's
// own.
const longAnswer = 64

// answer are the keys of the newest answer without what the conversation began with: a program may
// write its first message anew in every turn (retrieved documents, a plan made before), and give
// ids of its own to calls that had none.
func (t *trail) answer() []EchoKey {
	if t.req.Delta {
		return nil
	}
	for i := t.req.End() - 1; i >= max(t.oldest, t.req.New()-maxBack); i-- {
		if t.req.Role(i) != wire.RoleAssistant {
			continue
		}
		it := t.req.Item(i)
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

// rest gives what had not been walked when it was asked for first.
func (t *trail) rest() []EchoKey {
	for k, ok := t.next(); ok; k, ok = t.next() {
		t.older = append(t.older, k.EchoKey)
	}
	return t.older
}

// details are the keys of what tells runs apart whose ids are counted, newest first: what was
// called, what came back, what the user said. What is new in the request went by in no session that
// it could belong to. An agent may word them anew, so they are asked only where several sessions
// are left.
func (t *trail) details() []EchoKey {
	if t.telling != nil {
		return t.telling
	}
	for i := t.req.Len() - 1; i >= t.oldest && len(t.telling) < maxTrail; i-- {
		it := t.req.Item(i)
		for c := range it.Calls[:min(len(it.Calls), maxTrail)] {
			t.telling = append(t.telling, t.r.detail("d:"+wire.EchoCall(&it.Calls[c])))
		}
		if i < t.req.New() && (it.Role == wire.RoleUser || it.Role == wire.RoleTool) {
			t.telling = append(t.telling, t.r.detail("h:"+strconv.FormatUint(t.req.Hash(i), 16)))
		}
	}
	return t.telling
}

// detail is the key of such a thing.
func (r *Resolved) detail(what string) EchoKey { return echoKey(r.scope, what, r.about()) }

// method says what the key at that place of the trail proves.
func (t *trail) method(place int) Method {
	if place == 0 && t.named {
		return ByBody
	}
	return ByEcho
}
