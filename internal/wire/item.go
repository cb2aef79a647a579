package wire

import (
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Call is a tool call.
type Call struct {
	ID   string
	Name string
	Args string // JSON text as sent (chat, responses: the unescaped string; messages: the raw object); custom tools: the input text
}

// Result is one tool result inside an item.
type Result struct {
	CallID     string
	Text       string // unescaped text; parts joined with \n
	Lead       string // blocks that another precept, between the agent and this one, put before the text; not part of Text
	IsError    int8   // -1 no error, +1 error, 0 no flag on the wire
	Block      int    // messages: index of the tool_result block in the content; otherwise 0
	InUserText bool   // the result is text of a user's message; Block is the number of an observation, or -1
	WithCall   bool   // the same item holds the call
	Inferred   bool   // the text is a result only because the list repeats call and text; the text is in Words, too
	MediaHash  uint64 // hash of images and files; 0 for none
}

// Item is one entry of messages or input, decoded.
type Item struct {
	Index   int
	Role    Role
	Kind    string // responses: type of the item, "" for none
	ID      string // id of the item (responses: "id", id of an item_reference)
	Ref     bool   // item_reference: the provider keeps the item
	Text    string // user: all text parts as sent, joined with \n; assistant, system: the text
	Words   string // user only: words of the user, without reminders, environment blocks and blocks of precept; "" for none
	Calls   []Call
	Results []Result
	Served  []string // ids of parts of an answer that the provider keeps: calls that the provider answered, audio
	Lead    string   // user: blocks of another precept before the words
	HasText bool     // user: a block can be inserted before a text part

	textCall      Call   // user: call that the text answers, for agents with calls in text
	textCallIndex int    // index of the item with that call
	steps         []step // user: steps of a message to which the agent appends every call and result
}

// ItemResult is a tool result with the index of its item.
type ItemResult struct {
	Item   int
	Result Result
}

// ResultInferred reports whether the words of a user's item count as a tool result (see Result.Inferred).
func (it *Item) ResultInferred() bool { return len(it.Results) > 0 && it.Results[0].Inferred }

// Item returns item i, decoded once.
func (r *Request) Item(i int) *Item {
	at := r.memo.items.at(i, len(r.scan.list))
	if *at == nil {
		it := &Item{Index: i, Role: r.scan.list[i].role}
		r.decode(it, r.at(i))
		*at = it
	}
	return *at
}

// Forget drops the decoded items. A later use decodes an item again.
func (r *Request) Forget() {
	clear(r.memo.items.pages)
	r.memo.split, r.memo.splitOf = nil, 0
	r.memo.newResults, r.memo.hasNewResults = nil, false
}

// decode decodes an item by its dialect, and then calls and results that the agent wrote as text.
func (r *Request) decode(it *Item, value span) {
	switch r.Dialect {
	case Chat:
		r.decodeChat(it, value)
	case Responses:
		r.decodeResponses(it, value)
	case Messages:
		r.decodeMessages(it, value)
	case None:
	}
	switch it.Role {
	case RoleUser:
		r.readTextResult(it)
	case RoleAssistant:
		r.readTextCalls(it)
	case RoleSystem, RoleTool, RoleOther:
	}
}

// New returns the index of the first item of the new part: the items after the last output of the
// model (assistant message, call, reasoning, reference). A prefilled beginning of the next answer
// (see Prefilled) does not count as output. New is 0 in a delta request.
func (r *Request) New() int { return r.scan.newFrom }

func (r *Request) firstNew() int {
	if r.Delta {
		return 0
	}
	for i, e := range slices.Backward(r.scan.list[:r.End()]) {
		if e.role == RoleAssistant {
			return i + 1
		}
	}
	return 0
}

// prefills reports whether item i, at the end of the list, is the beginning of the answer that the
// model continues.
func (r *Request) prefills(i int) bool {
	if r.scan.list[i].role != RoleAssistant {
		return false
	}
	it := r.Item(i)
	return it.Text != "" && len(it.Calls) == 0 && len(it.Served) == 0 && !it.Ref
}

// End returns the length of the list without a prefilled beginning of the answer.
func (r *Request) End() int {
	end := len(r.scan.list)
	for end > 0 && r.prefills(end-1) {
		end--
	}
	return end
}

// Prefilled returns the beginning of the answer at the end of the list, "" for none. The client may
// send the answer back with or without the beginning.
func (r *Request) Prefilled() string {
	end := r.End()
	if end == len(r.scan.list) {
		return ""
	}
	return strings.Clone(r.Item(end).Text)
}

// LastUser returns the index of the newest user item of the new part with words of the user and a
// place for a block; -1 for none.
func (r *Request) LastUser() int {
	for i := len(r.scan.list) - 1; i >= r.New(); i-- {
		if r.scan.list[i].role != RoleUser {
			continue
		}
		if it := r.Item(i); it.HasText && it.Words != "" {
			return i
		}
	}
	return -1
}

// NewWords returns the words of all user items of the new part, the oldest first.
func (r *Request) NewWords() []string {
	var words []string
	for i := r.New(); i < len(r.scan.list); i++ {
		if r.scan.list[i].role != RoleUser {
			continue
		}
		if w := r.Item(i).Words; w != "" {
			words = append(words, w)
		}
	}
	return words
}

// NewResults returns the tool results of the new part, the oldest first. The caller does not change the list.
func (r *Request) NewResults() []ItemResult {
	if !r.memo.hasNewResults {
		r.memo.newResults, r.memo.hasNewResults = r.findNewResults(), true
	}
	return r.memo.newResults
}

func (r *Request) findNewResults() (out []ItemResult) {
	for i := r.New(); i < len(r.scan.list); i++ {
		if len(r.resultsOf(i)) == 0 && r.scan.list[i].role != RoleUser {
			continue
		}
		for _, res := range r.Item(i).Results {
			out = append(out, ItemResult{i, res})
		}
	}
	return out
}

// CallOf returns the call of a result, from the newest item with the id. A delta request usually
// lacks the call. Each item is read at most once, from the end: nearly always the last answer has
// the call.
func (r *Request) CallOf(callID string) (Call, bool) {
	if callID == "" {
		return Call{}, false
	}
	c := r.memo.calls[callID]
	for c == nil && r.memo.called < len(r.scan.list) {
		r.memo.called++
		i := len(r.scan.list) - r.memo.called
		if role := r.scan.list[i].role; role == RoleAssistant || role == RoleUser && Unnamed(callID) {
			c = r.readCalls(i, callID)
		}
	}
	if c == nil {
		return Call{}, false
	}
	return *c, true
}

// readCalls adds the calls of item i to the memo, and returns the call with the id wanted, nil for none.
// Of equal ids the newest item counts, and in one answer the first call.
func (r *Request) readCalls(i int, wanted string) (found *Call) {
	made := r.Item(i).Calls
	for k := range made {
		c := &made[k]
		if r.memo.calls[c.ID] != nil {
			continue
		}
		if r.memo.calls == nil {
			r.memo.calls = make(map[string]*Call)
		}
		r.memo.calls[c.ID] = c
		if c.ID == wanted {
			found = c
		}
	}
	return found
}

// unnamedMark is the first byte of the ids that this package makes for calls without an id: some
// servers send no ids, and some agents write calls as prose. The id of a call on the wire contains
// the index of the item that answers the call. The id is the same in every request as long as the
// agent only appends to the list.
const unnamedMark = "~"

// unnamedID returns the id of the call that item i answers.
func unnamedID(i int) string { return unnamedMark + strconv.Itoa(i) }

// UnnamedCall returns the id of the nth call of item i, for calls without an id.
func UnnamedCall(i, n int) string { return unnamedID(i + 1 + n) }

// Unnamed reports whether this package made the id of a call.
func Unnamed(callID string) bool { return strings.HasPrefix(callID, unnamedMark) }

// wireID returns the id of a call as the agent sent it, "" for an id of this package. Ids of this
// package depend on the position and are not part of the content hash.
func wireID(callID string) string {
	if Unnamed(callID) {
		return ""
	}
	return callID
}

// nameCalls sets the missing ids of the calls of item i. Agents answer such calls in the order of the
// calls, so the nth result gets the id of the nth call.
func nameCalls(calls []Call, i int) {
	for n := range calls {
		if calls[n].ID == "" {
			calls[n].ID = UnnamedCall(i, n)
		}
	}
}

// isNamed reports whether item i holds a tool result with the id of its call.
func (r *Request) isNamed(i int) bool {
	results := r.resultsOf(i)
	return len(results) > 0 && (r.Dialect != Chat || results[0].call != xxhash.Sum64(nil))
}

// EchoCall returns a hash of the name and the arguments of a call. A later request is recognised by this hash if the
// calls of the reply have no ids. White space between the JSON values of the arguments does not count.
func EchoCall(c *Call) string {
	sum := uint64(0)
	if args := []byte(c.Args); len(args) > 0 && args[0] == '{' && valid(args) {
		sum = hashValue(args, span{0, len(args)})
	} else {
		sum = xxhash.Sum64String(strings.TrimSpace(c.Args))
	}
	return hex16(mix(xxhash.Sum64String(c.Name), sum))
}
