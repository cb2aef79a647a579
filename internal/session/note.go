package session

import (
	"strconv"

	"precept/internal/wire"
)

// note indexes the echoes of the request, newest first, up to the first known echo. note returns
// the new random ids. Only this process knows texts and counted ids of requests.
func (t *Threader) note(r *Resolved, req *wire.Request) []EchoKey {
	if r.Method.named() && t.spoke(r.ID) {
		return nil // the name identifies the next request, and the index has the replies
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

// noteDetails indexes new content of a request. The content separates runs with counted ids.
func (t *Threader) noteDetails(r *Resolved, req *wire.Request) {
	for i := max(req.New(), req.Len()-maxBack); i < req.Len(); i++ {
		if it := req.Item(i); it.Role == wire.RoleUser || it.Role == wire.RoleTool {
			t.index.add(r.detail("h:"+strconv.FormatUint(req.Hash(i), 16)), owner{r.ID, stampRequest})
		}
	}
}

// Replied indexes a reply and returns the keys to store. Call Replied before the last byte of the
// reply reaches the client: the next request may arrive before Replied returns. main is false for
// the reply to a side request, which does not advance the session.
func (t *Threader) Replied(r Resolved, rep *wire.Reply, main bool) []EchoKey {
	o := owner{r.ID, stampRequest}
	if main && rep.Complete {
		o.stamp = stampReply | t.advance(&r)
		t.transcripts.addAnswer(&r, rep.Text)
	}
	var keys []EchoKey
	if r.Method.named() { // the name identifies the next request, and a text is the weakest echo
		for _, k := range wire.EchoReply(rep, r.prefill) {
			if k[0] != 't' {
				keys = append(keys, r.key(k))
			}
		}
		return t.index.addAll(keys, o)
	}
	// Details come first: a request that finds the id of a call must find the details of the call
	// as well.
	for i := range rep.Calls[:min(len(rep.Calls), maxTrail)] {
		if c := &rep.Calls[i]; c.ID != "" && !random("c:"+c.ID) {
			t.index.add(r.detail("d:"+wire.EchoCall(c)), o)
		}
	}
	for _, k := range wire.EchoReply(rep, r.prefill) {
		keys = append(keys, r.key(k))
		if counted(k) {
			t.index.add(r.detail(k), o)
		}
	}
	switch {
	case !main && rep.Complete:
		keys = append(keys, summaryKeys(r.scope, rep.Text, summaryGiven)...)
	case main && rep.Complete && !rep.Cut:
		keys = append(keys, answerKeys(r.scope, r.prefill+rep.Text, rep.Calls)...)
	}
	return t.index.addAll(keys, o)
}

// Summed indexes the reply to a side request without a session. id is the session that the side
// request quotes, and the session may continue from a summary in the reply.
func (t *Threader) Summed(r Resolved, id ID, rep *wire.Reply) {
	if rep.Complete {
		t.index.addAll(summaryKeys(r.scope, rep.Text, summaryGiven), owner{id, stampRequest})
	}
}
