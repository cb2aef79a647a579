package session

import (
	"time"

	"precept/internal/wire"
)

// callerText is how many bytes of a conversation's first words are searched.
const callerText = 4 << 10

// Caller finds the conversation that made the one which the request begins: its newest reply calls
// for something in words that are the first ones here, as a tool does that is an agent. sure is
// false where several ask for the same.
func (q *Quotes) Caller(sc Scope, req *wire.Request, now time.Time) (id ID, ok, sure bool) {
	words := task(req)
	if len(words) < quoteAlone {
		return id, false, false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for x := range q.of[sc.whose()].all {
		if now.Sub(x.at) >= quoteLife || !shows(words, x.asks) {
			continue
		}
		if x.system == req.SystemHash && shows(words, x.asked[:]) {
			continue // the same agent was given the same task once more
		}
		if ok {
			return id, true, false
		}
		id, ok = x.id, true
	}
	return id, ok, ok
}

// task are the words with which a conversation begins, "" where something was answered already.
func task(req *wire.Request) string {
	for i := range min(req.Len(), maxFront) {
		if role := req.Role(i); role == wire.RoleAssistant || role == wire.RoleTool {
			return ""
		}
	}
	it, ok := opening(req)
	if !ok {
		return ""
	}
	return it.Words[:min(len(it.Words), callerText)]
}
