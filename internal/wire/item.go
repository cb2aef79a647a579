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
	Args string // arguments: the unescaped JSON string (chat, responses), the raw JSON object (messages), or a custom tool's input
}

// Result is one tool result inside an item.
type Result struct {
	CallID        string
	Text          string // unescaped text; parts joined with \n
	LeadingBlocks string // blocks that another precept, between the agent and this one, inserted before the text; not part of Text
	IsError       int8   // -1 for no error, +1 for an error, 0 if the API sent no flag
	Block         int    // messages: index of the tool_result block in the content; otherwise 0
	InUserText    bool   // the result is text of a user message; Block is the number of an observation, or -1
	WithCall      bool   // the same item also holds the call
	Inferred      bool   // the text counts as a result only because the list repeats call and text; Item.UserText has the text, too
	MediaHash     uint64 // hash of images and files; 0 for none
}

// Item is one entry of messages or input, decoded.
type Item struct {
	Index         int
	Role          Role
	Kind          string // responses: type of the item, "" for none
	ID            string // id of the item (responses: "id", id of an item_reference)
	IsReference   bool   // the item is an item_reference to an item that the provider keeps
	Text          string // user: all text parts as sent, joined with \n; assistant, system: the text
	UserText      string // user only: words of the user, without reminders, environment blocks and blocks of precept; "" for none
	Calls         []Call
	Results       []Result
	ProviderIDs   []string // ids of parts of an answer that the provider keeps: calls that the provider answered, audio
	LeadingBlocks string   // user: blocks of another precept before the words
	HasText       bool     // user: a block can be inserted before one of the text parts

	textCall      Call   // user: call that the text answers, for agents that write calls as text
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

// Item returns item i. The item is decoded at the first use.
func (r *Request) Item(i int) *Item {
	at := r.memo.items.at(i, len(r.scan.list))
	if *at == nil {
		it := &Item{Index: i, Role: r.scan.list[i].role}
		r.decode(it, r.itemSpan(i))
		*at = it
	}
	return *at
}

// Forget drops the decoded items. A later use decodes an item again.
func (r *Request) Forget() {
	clear(r.memo.items.pages)
	r.memo.splitParts, r.memo.splitItem = nil, 0
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
	case NoDialect:
	}
	switch it.Role {
	case RoleUser:
		r.readTextResult(it)
	case RoleAssistant:
		r.readTextCalls(it)
	case RoleSystem, RoleTool, RoleOther:
	}
}

// FirstNew returns the index of the first new item. The new items are those after the last output of the model
// (assistant message, call, reasoning, reference). A prefilled beginning of the next answer (see Prefilled) does not
// count as output. The result is 0 if the request is a delta.
func (r *Request) FirstNew() int { return r.scan.firstNew }

func (r *Request) findFirstNew() int {
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

// isPrefilled reports whether item i, at the end of the list, is the beginning of the answer that the
// model continues.
func (r *Request) isPrefilled(i int) bool {
	if r.scan.list[i].role != RoleAssistant {
		return false
	}
	it := r.Item(i)
	return it.Text != "" && len(it.Calls) == 0 && len(it.ProviderIDs) == 0 && !it.IsReference
}

// End returns the length of the list without a prefilled beginning of the answer.
func (r *Request) End() int {
	end := len(r.scan.list)
	for end > 0 && r.isPrefilled(end-1) {
		end--
	}
	return end
}

// Prefill returns the beginning of the answer at the end of the list, "" for none. The client may
// send the answer back with or without the beginning.
func (r *Request) Prefill() string {
	end := r.End()
	if end == len(r.scan.list) {
		return ""
	}
	return strings.Clone(r.Item(end).Text)
}

// LastUser returns the index of the newest of the new user items that has words of the user and a place for a block, -1
// for none.
func (r *Request) LastUser() int {
	for i := len(r.scan.list) - 1; i >= r.FirstNew(); i-- {
		if r.scan.list[i].role != RoleUser {
			continue
		}
		if it := r.Item(i); it.HasText && it.UserText != "" {
			return i
		}
	}
	return -1
}

// NewUserTexts returns the words of all new user items, the oldest first.
func (r *Request) NewUserTexts() []string {
	var words []string
	for i := r.FirstNew(); i < len(r.scan.list); i++ {
		if r.scan.list[i].role != RoleUser {
			continue
		}
		if w := r.Item(i).UserText; w != "" {
			words = append(words, w)
		}
	}
	return words
}

// NewResults returns the tool results of the new items, the oldest first. The caller must not change the list.
func (r *Request) NewResults() []ItemResult {
	if !r.memo.hasNewResults {
		r.memo.newResults, r.memo.hasNewResults = r.findNewResults(), true
	}
	return r.memo.newResults
}

func (r *Request) findNewResults() (out []ItemResult) {
	for i := r.FirstNew(); i < len(r.scan.list); i++ {
		if len(r.resultsInItem(i)) == 0 && r.scan.list[i].role != RoleUser {
			continue
		}
		for _, res := range r.Item(i).Results {
			out = append(out, ItemResult{i, res})
		}
	}
	return out
}

// CallOf returns the call with the id, from the newest item that has one. It returns false if there is none, as usual
// in a delta request. Items are read from the end and each at most once, because nearly always the last answer has the
// call.
func (r *Request) CallOf(callID string) (Call, bool) {
	if callID == "" {
		return Call{}, false
	}
	c := r.memo.calls[callID]
	for c == nil && r.memo.decodedCallItems < len(r.scan.list) {
		r.memo.decodedCallItems++
		i := len(r.scan.list) - r.memo.decodedCallItems
		if role := r.scan.list[i].role; role == RoleAssistant || role == RoleUser && IsGeneratedID(callID) {
			c = r.memoizeCalls(i, callID)
		}
	}
	if c == nil {
		return Call{}, false
	}
	return *c, true
}

// memoizeCalls adds the calls of item i to the memo, and returns the call with the id wanted, nil for none. If several
// calls have the same id, the newest item counts, and the first call of this item.
func (r *Request) memoizeCalls(i int, wanted string) (found *Call) {
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

// generatedIDPrefix is the first byte of the ids that this package makes for calls without an id. Some servers send no
// ids, and some agents write calls as prose. For the calls of such servers, the id contains the index of the item that
// answers the call, so it stays the same as long as the agent only appends to the list.
const generatedIDPrefix = "~"

// generatedID returns the id of the call that item i answers.
func generatedID(i int) string { return generatedIDPrefix + strconv.Itoa(i) }

// GeneratedCallID returns the id of the nth call of item i, for calls without an id.
func GeneratedCallID(i, n int) string { return generatedID(i + 1 + n) }

// IsGeneratedID reports whether this package made the id of a call.
func IsGeneratedID(callID string) bool { return strings.HasPrefix(callID, generatedIDPrefix) }

// sentID returns the id of a call if the agent sent the id, and "" if this package made it. Ids of this package depend
// on the position, so they are not part of the content hash.
func sentID(callID string) string {
	if IsGeneratedID(callID) {
		return ""
	}
	return callID
}

// setMissingIDs sets the missing ids of the calls of item i. Agents answer such calls in order, so the nth result gets
// the same id as the nth call.
func setMissingIDs(calls []Call, i int) {
	for n := range calls {
		if calls[n].ID == "" {
			calls[n].ID = GeneratedCallID(i, n)
		}
	}
}

// hasCallID reports whether item i holds a tool result with the id of its call.
func (r *Request) hasCallID(i int) bool {
	results := r.resultsInItem(i)
	return len(results) > 0 && (r.Dialect != Chat || results[0].call != xxhash.Sum64(nil))
}

// CallEchoHash returns a hash of the name and the arguments of a call. A later request is recognised by this hash if
// the calls of the reply have no ids. White space between the JSON values of the arguments does not count.
func CallEchoHash(c *Call) string {
	sum := uint64(0)
	if args := []byte(c.Args); len(args) > 0 && args[0] == '{' && valid(args) {
		sum = hashValue(args, span{0, len(args)})
	} else {
		sum = xxhash.Sum64String(strings.TrimSpace(c.Args))
	}
	return hex16(combineHashes(xxhash.Sum64String(c.Name), sum))
}
