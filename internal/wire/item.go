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
	Args string // the unescaped JSON string (chat, responses), the raw JSON object (messages), or a custom tool's input
}

// Result is one tool result inside an item.
type Result struct {
	CallID        string
	Text          string // unescaped; parts joined with \n
	LeadingBlocks string // blocks that a second precept, between the agent and this precept, inserted before Text
	IsError       int8   // -1 for no error, +1 for an error, 0 without a flag
	Block         int    // messages: tool_result index in the content; otherwise 0
	InUserText    bool   // the result is user message text; Block is the step number in a growing message, or -1
	WithCall      bool   // the same item also holds the call
	Inferred      bool   // read as a result because call and text repeat (see repeatedCall)
	MediaHash     uint64 // hash for images and files; 0 for none
}

// Item is one decoded entry in messages or input.
type Item struct {
	Index         int
	Role          Role
	Kind          string // responses: item type
	ID            string // responses: "id"; in an item_reference, the id of the item referred to
	IsReference   bool   // the item refers to an item that the provider keeps
	Text          string // text parts as sent, joined with \n
	UserText      string // the user's words, without reminders, environment blocks and precept's blocks
	Calls         []Call
	Results       []Result
	ProviderIDs   []string // ids for parts that the provider stores: calls that the provider answered, audio
	LeadingBlocks string   // user: blocks from a second precept before the words
	HasText       bool     // user: there is a text part before which a block can be inserted

	textCall      Call   // user: call written as text, answered by this item's text
	textCallIndex int    // index of the item with textCall
	steps         []step // user: steps in a growing message (agents.go)
}

// ItemResult is a tool result with the item's index.
type ItemResult struct {
	Item   int
	Result Result
}

// ResultInferred reports whether a user's words are read as a tool result (see Result.Inferred).
func (it *Item) ResultInferred() bool { return len(it.Results) > 0 && it.Results[0].Inferred }

// Item returns item i, decoded at the first use.
func (r *Request) Item(i int) *Item {
	at := r.memo.items.at(i, len(r.scan.list))
	if *at == nil {
		it := &Item{Index: i, Role: r.scan.list[i].role}
		r.decode(it, r.itemSpan(i))
		*at = it
	}
	return *at
}

// Forget drops the decoded items. A later use decodes them again.
func (r *Request) Forget() {
	clear(r.memo.items.pages)
	r.memo.splitParts, r.memo.splitItem = nil, 0
	r.memo.newResults, r.memo.hasNewResults = nil, false
}

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

// FirstNew returns the index of the first item after the model's last output (assistant message, call, reasoning,
// reference). In a delta, a list without the history, the index is 0. A prefilled beginning (see Prefill) does not
// count as output.
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

// isPrefilled reports whether item i is a beginning of the answer that the client wrote. The caller checks that only
// such items follow.
func (r *Request) isPrefilled(i int) bool {
	if r.scan.list[i].role != RoleAssistant {
		return false
	}
	it := r.Item(i)
	return it.Text != "" && len(it.Calls) == 0 && len(it.ProviderIDs) == 0 && !it.IsReference
}

// End returns the list length without a prefilled beginning of the answer.
func (r *Request) End() int {
	end := len(r.scan.list)
	for end > 0 && r.isPrefilled(end-1) {
		end--
	}
	return end
}

// Prefill returns the beginning of the answer that the client wrote at the end of the list, or "" if there is none. The
// client may later send the answer back with or without this beginning.
func (r *Request) Prefill() string {
	end := r.End()
	if end == len(r.scan.list) {
		return ""
	}
	return strings.Clone(r.Item(end).Text)
}

// LastUser returns the index of the last new user item that has the user's words and a place for a block, or -1 if
// there is none.
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

// NewUserTexts returns the user's words in all new items, the oldest first.
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

// NewResults returns the tool results in the new items, the oldest first. The caller must not change them.
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

// FindCall returns the newest call with the id. It reads the items from the end, because the last answer nearly always
// has the call. A delta, a list without the history, usually lacks the call.
func (r *Request) FindCall(callID string) (Call, bool) {
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

// memoizeCalls adds the calls in item i to the memo, and returns the call with the wanted id. If calls share an id, the
// memo keeps the first one in the newest item.
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

// generatedIDPrefix is the start of the ids that this package makes for calls without one. Such an id contains a list
// position, so it stays the same as long as the agent only appends to the list.
const generatedIDPrefix = "~"

func generatedID(i int) string { return generatedIDPrefix + strconv.Itoa(i) }

// GeneratedCallID returns the id that item i's nth call gets if the client sent none.
func GeneratedCallID(i, n int) string { return generatedID(i + 1 + n) }

// IsGeneratedID reports whether this package made the call id.
func IsGeneratedID(callID string) bool { return strings.HasPrefix(callID, generatedIDPrefix) }

// sentID returns a call's id, or "" for a generated id, which the content hash omits because a generated id depends on
// the position.
func sentID(callID string) string {
	if IsGeneratedID(callID) {
		return ""
	}
	return callID
}

// setMissingIDs sets missing call ids in item i. Agents answer such calls in order, so the nth result gets the nth
// call's id.
func setMissingIDs(calls []Call, i int) {
	for n := range calls {
		if calls[n].ID == "" {
			calls[n].ID = GeneratedCallID(i, n)
		}
	}
}

// hasCallID reports whether the tool result in item i names a call.
func (r *Request) hasCallID(i int) bool {
	results := r.resultsInItem(i)
	return len(results) > 0 && (r.Dialect != Chat || results[0].call != xxhash.Sum64(nil))
}

// CallEchoHash returns a hash over a call's name and arguments. It identifies a call without an id in a later request.
// The hash ignores white space between JSON values.
func CallEchoHash(c *Call) string {
	sum := uint64(0)
	if args := []byte(c.Args); len(args) > 0 && args[0] == '{' && valid(args) {
		sum = hashValue(args, span{0, len(args)})
	} else {
		sum = xxhash.Sum64String(strings.TrimSpace(c.Args))
	}
	return hex16(combineHashes(xxhash.Sum64String(c.Name), sum))
}
