package session

import (
	"slices"
	"sync"
	"time"

	"precept/internal/wire"
)

// Quotes holds texts from active conversations, to recognise side requests that quote a conversation. Frameworks word
// such requests in ways that package detect does not know (docs/decisions/0010-side-calls-of-frameworks.md). Quotes is
// bounded and safe for concurrent use.
type Quotes struct {
	mu      sync.Mutex
	byScope recent[Scope, *scopeConversations]
}

type scopeConversations struct{ withTools, withoutTools []*fingerprint }

func (s *scopeConversations) all(yield func(x *fingerprint) bool) {
	if s == nil {
		return
	}
	for _, list := range [...][]*fingerprint{s.withTools, s.withoutTools} {
		for _, x := range slices.Backward(list) {
			if !yield(x) {
				return
			}
		}
	}
}

// NewQuotes returns empty Quotes.
func NewQuotes() *Quotes {
	return &Quotes{byScope: newRecent[Scope, *scopeConversations](maxQuoteScopes)}
}

// AddTurn adds a session's turn: the new items if the conversation is known, and otherwise (as after a restart) all
// items.
func (q *Quotes) AddTurn(sc Scope, id ID, req *wire.Request, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	x := q.find(sc, id, len(req.Tools) > 0)
	from := req.FirstNew()
	if x.lastSeen.IsZero() {
		from = 0
		if !req.Delta {
			x.addHistory(req)
		}
	}
	words, results := newestTexts(req, from)
	x.lastSeen, x.system = now, req.SystemHash
	if len(req.Tools) > 0 && x.toolsHash != req.ToolsHash {
		x.tools, x.toolsHash = shortNames(req.Tools), req.ToolsHash
	}
	if w := firstPiece(words); w.text != "" {
		x.userWords[1] = w
		if x.userWords[0].text == "" {
			x.userWords[0] = w
		}
	}
	for _, r := range results {
		x.addAnswer(r)
	}
}

// AddReply adds the reply to a turn that AddTurn has added.
func (q *Quotes) AddReply(sc Scope, id ID, rep *wire.Reply) {
	q.mu.Lock()
	defer q.mu.Unlock()
	x := q.byScope.values[sc.withoutRun()].get(id)
	if x == nil {
		return
	}
	x.addAnswer(rep.Text)
	x.callPhrases = nil
	for i := range rep.Calls[:min(len(rep.Calls), maxReplyCalls)] {
		x.callPhrases = appendPhrases(x.callPhrases, rep.Calls[i].Args, len(x.callPhrases)+maxCallPhrases)
	}
}

// AddSideReply adds the reply to a side request about a session. The next side request may quote the reply.
func (q *Quotes) AddSideReply(sc Scope, id ID, rep *wire.Reply, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	x := q.byScope.values[sc.withoutRun()].get(id)
	if x == nil {
		return
	}
	x.sidePhrases, x.sideAt = appendPhrases(nil, rep.Text, maxSidePhrases), now
	for i := range rep.Calls {
		x.sidePhrases = appendPhrases(x.sidePhrases, rep.Calls[i].Args, maxSidePhrases)
	}
}

// QuotedSession returns the conversation that the request quotes. The conversation must have a different system prompt,
// and none of the request's tools.
func (q *Quotes) QuotedSession(sc Scope, req *wire.Request, now time.Time) (id ID, ok bool) {
	if req.Delta {
		return id, false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	search := quotationSearch{toolNames: shortNames(req.Tools), hasNoTools: len(req.Tools) == 0, now: now}
	search.requiresCall = len(req.Tools) > 0 && req.RequiresTool()
	search.requiresJSON = search.hasNoTools && req.RequiresJSON()
	search.read(req)
	for x := range q.byScope.values[sc.withoutRun()].all {
		if x.system != req.SystemHash && now.Sub(x.lastSeen) < quoteTTL && !haveCommonName(search.toolNames, x.tools) && search.quotes(x) {
			return x.id, true
		}
	}
	return id, false
}

// find returns a conversation's entry. It creates a missing entry, which may replace the least recently used one. The
// caller locks q.
func (q *Quotes) find(sc Scope, id ID, hasTools bool) *fingerprint {
	sc = sc.withoutRun()
	if q.byScope.values[sc] == nil {
		q.byScope.put(sc, &scopeConversations{})
	}
	t := q.byScope.values[sc]
	x := t.get(id)
	if x == nil {
		x = &fingerprint{id: id, hasTools: hasTools}
	}
	list := &t.withoutTools
	if x.hasTools {
		list = &t.withTools
	}
	*list = appendNewest(slices.DeleteFunc(*list, func(y *fingerprint) bool { return y == x }), x, maxQuoteConversations)
	return x
}

func (s *scopeConversations) get(id ID) *fingerprint {
	for x := range s.all {
		if x.id == id {
			return x
		}
	}
	return nil
}

const maxCallerBytes = 4 << 10

// Caller returns the conversation that started a sub-agent with this request: a tool call in the caller's newest reply
// contains the request's first words. sure is false if several conversations made such a call.
func (q *Quotes) Caller(sc Scope, req *wire.Request, now time.Time) (id ID, ok, sure bool) {
	words := openingText(req)
	if len(words) < minUniqueBytes {
		return id, false, false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for x := range q.byScope.values[sc.withoutRun()].all {
		if now.Sub(x.lastSeen) >= quoteTTL || !containsPiece(words, x.callPhrases) {
			continue
		}
		if x.system == req.SystemHash && containsPiece(words, x.userWords[:]) {
			continue // the agent got the same task again
		}
		if ok {
			return id, true, false
		}
		id, ok = x.id, true
	}
	return id, ok, ok
}

func openingText(req *wire.Request) string {
	for i := range min(req.Len(), maxFirstItems) {
		if role := req.Role(i); role == wire.RoleAssistant || role == wire.RoleTool {
			return ""
		}
	}
	it, ok := firstUserItem(req)
	if !ok {
		return ""
	}
	return it.UserText[:min(len(it.UserText), maxCallerBytes)]
}
