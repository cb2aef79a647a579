package session

import (
	"strconv"

	"precept/internal/wire"
)

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

// Replied notes a reply, and returns the keys to be stored. Call it before the last byte of the
// reply goes to the client: the next request may be here before this one has returned. main is
// false for a side request's reply, which says nothing of how far the session is.
func (t *Threader) Replied(r Resolved, rep *wire.Reply, main bool) []EchoKey {
	o := owner{r.ID, stampRequest}
	if main && rep.Complete {
		o.stamp = stampReply | t.advance(&r)
		t.transcripts.answered(&r, rep.Text)
	}
	var keys []EchoKey
	if r.Method.named() { // it comes back with its name; a text alone is the weakest of echoes
		for _, k := range wire.EchoReply(rep, r.prefill) {
			if k[0] != 't' {
				keys = append(keys, r.key(k))
			}
		}
		return t.index.addAll(keys, o)
	}
	// These first: whoever finds the call's id finds them as well.
	for i := range rep.Calls[:min(len(rep.Calls), maxTrail)] {
		if c := &rep.Calls[i]; c.ID != "" && !random("c:"+c.ID) {
			t.index.add(r.detail("d:"+wire.EchoCall(c)), o)
		}
	}
	for _, k := range wire.EchoReply(rep, r.prefill) {
		keys = append(keys, r.key(k))
	}
	switch {
	case !main && rep.Complete:
		keys = append(keys, summaryKeys(r.scope, rep.Text, summaryGiven)...)
	case main && rep.Complete && !rep.Cut:
		keys = append(keys, answerKeys(r.scope, r.prefill+rep.Text, rep.Calls)...)
	}
	return t.index.addAll(keys, o)
}

// Summed notes the reply to a side call about a session that was found by nothing but what it
// shows: the session may go on from a summary.
func (t *Threader) Summed(r Resolved, id ID, rep *wire.Reply) {
	if rep.Complete {
		t.index.addAll(summaryKeys(r.scope, rep.Text, summaryGiven), owner{id, stampRequest})
	}
}
