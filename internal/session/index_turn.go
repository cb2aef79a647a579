package session

import (
	"strconv"

	"precept/internal/wire"
)

// indexRequest indexes the request's echoes, newest first, and stops at the first random id that is already known. It
// returns the keys for new random ids, which the store keeps for other replicas. The other keys stay in this process.
func (t *Threader) indexRequest(r *Resolved, req *wire.Request) []EchoKey {
	if r.Method.isClientName() && t.hasReplied(r.ID) {
		return nil // the client sends its session name with every request, and RecordReply has indexed the replies
	}
	kind, oldest := stampRequest, max(0, req.Len()-maxSearchedItems)
	var added []EchoKey
	if r.New {
		kind = stampPast
		if key, ok := firstWordsKey(r.scope, req); ok && t.index.add(key, owner{r.ID, kind}) {
			added = append(added, key)
		}
	} else {
		oldest = max(oldest, req.FirstNew()-maxItemsBefore)
	}
	seen := 0
	for i := req.Len() - 1; i >= oldest && seen < maxTrail; i-- {
		echoes := req.EchoKeys(i)
		for _, k := range echoes[:min(len(echoes), maxTrail)] {
			seen++
			key := r.key(k)
			if k[0] == 't' || !looksRandom(k) {
				t.index.add(key, owner{r.ID, stampWeak})
				continue
			}
			if !t.index.add(key, owner{r.ID, kind}) {
				return added
			}
			added = append(added, key)
		}
	}
	if r.byRepeatedContent {
		t.indexDetails(r, req)
	}
	return added
}

// indexDetails indexes the request's new user messages and tool results. They distinguish conversations with the same
// counted ids (such as "call_1").
func (t *Threader) indexDetails(r *Resolved, req *wire.Request) {
	for i := max(req.FirstNew(), req.Len()-maxItemsBefore); i < req.Len(); i++ {
		if it := req.Item(i); it.Role == wire.RoleUser || it.Role == wire.RoleTool {
			t.index.add(r.detailKey("h:"+strconv.FormatUint(req.Hash(i), 16)), owner{r.ID, stampRequest})
		}
	}
}

// RecordReply indexes a reply, and returns the keys to store. Call it before the reply's last byte reaches the client,
// because the client's next request may follow immediately. main is false for the reply to a side request.
func (t *Threader) RecordReply(r Resolved, rep *wire.Reply, main bool) []EchoKey {
	o := owner{r.ID, stampRequest}
	if main && rep.Complete {
		o.stamp = stampReply | t.countReply(&r)
		t.transcripts.addAnswer(&r, rep.Text)
	}
	var keys []EchoKey
	if r.Method.isClientName() { // the client sends its session name with every request, so ids are enough
		for _, k := range wire.ReplyEchoKeys(rep, r.prefill) {
			if k[0] != 't' {
				keys = append(keys, r.key(k))
			}
		}
		return t.index.addAll(keys, o)
	}
	// Details (see detailKey) come first, because a concurrent request that finds a call's id must also find the
	// details.
	for i := range rep.Calls[:min(len(rep.Calls), maxTrail)] {
		if c := &rep.Calls[i]; c.ID != "" && !looksRandom("c:"+c.ID) {
			t.index.add(r.detailKey("d:"+wire.CallEchoHash(c)), o)
		}
	}
	for _, k := range wire.ReplyEchoKeys(rep, r.prefill) {
		keys = append(keys, r.key(k))
		if isCountedID(k) {
			t.index.add(r.detailKey(k), o)
		}
	}
	switch {
	case !main && rep.Complete:
		keys = append(keys, summaryKeys(r.scope, rep.Text, maxReplySummaryKeys)...)
	case main && rep.Complete && !rep.Cut:
		keys = append(keys, answerKeys(r.scope, r.prefill+rep.Text, rep.Calls)...)
	}
	return t.index.addAll(keys, o)
}

// AddSummary indexes the reply to a side request that quotes the conversation of the session with this id. The reply
// may be a summary with which the session's next list begins.
func (t *Threader) AddSummary(r Resolved, id ID, rep *wire.Reply) {
	if rep.Complete {
		t.index.addAll(summaryKeys(r.scope, rep.Text, maxReplySummaryKeys), owner{id, stampRequest})
	}
}
