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
	CallID  string
	Text    string // unescaped text; parts joined with \n
	Lead    string // the blocks that another precept put before it; they are not in Text
	IsError int8   // -1 the wire says no error, +1 it says error, 0 it does not say
	Block   int    // index of the tool_result block in the item's content (messages); 0 elsewhere
	Written bool   // it is the text of a user's message; Block is the number of an observation in it, or -1
	Own     bool   // and its call stands in the same item
	Alike   bool   // it is one because the list goes round in circles: it stands in Words as well
	Beside  uint64 // a hash of what it holds beside text: images, files; 0 for nothing
}

// Item is one entry of messages or input, decoded.
type Item struct {
	Index   int
	Role    Role
	Kind    string // responses: its type, "" where it has none
	ID      string // the item's own id (responses: "id", item_reference's id)
	Ref     bool   // item_reference: ID names something that the provider keeps
	Text    string // user: every text part as sent, joined with \n; assistant: its text; system: its text
	Words   string // user only: the user's own words: the text parts after reminders, environment blocks and our own blocks are stripped; "" when the message has none
	Calls   []Call
	Results []Result
	Served  []string // ids of what the provider keeps of an answer: calls that it answered itself, spoken words
	Lead    string   // user: the blocks that another precept put before the words
	HasText bool     // user: there is a text part that a block can be put before

	wrote   Call   // user: the call that a written result answers,
	wroteAt int    // and the item that holds it
	steps   []step // user: those of a message that grows
}

// ItemResult is a tool result with the index of the item that holds it.
type ItemResult struct {
	Item int
	Result
}

// Alike says whether the words of a user's item are taken for a tool result (see Result.Alike).
func (it *Item) Alike() bool { return len(it.Results) > 0 && it.Results[0].Alike }

// Item decodes item i once.
func (r *Request) Item(i int) *Item {
	if r.items == nil {
		r.items = make([]*Item, len(r.list))
	}
	if r.items[i] == nil {
		it := &Item{Index: i, Role: r.list[i].role}
		r.decode(it, r.at(i))
		r.items[i] = it
	}
	return r.items[i]
}

func (r *Request) decode(it *Item, at span) {
	switch r.Dialect {
	case Chat:
		r.decodeChat(it, at)
	case Responses:
		r.decodeResponses(it, at)
	case Messages:
		r.decodeMessages(it, at)
	case None:
	}
	switch it.Role {
	case RoleUser:
		r.readWritten(it)
	case RoleAssistant:
		r.readWrittenCalls(it)
	case RoleSystem, RoleTool, RoleOther:
	}
}

// New is the index of the first item after the last thing that the model said (assistant message,
// call, reasoning, reference to one of these): the new part of the turn. What the client has begun
// of the next answer, at the end of the list, is not said yet. In a delta request it is 0.
func (r *Request) New() int { return r.fresh }

func (r *Request) firstNew() int {
	if r.Delta {
		return 0
	}
	for i, e := range slices.Backward(r.list[:r.End()]) {
		if e.role == RoleAssistant {
			return i + 1
		}
	}
	return 0
}

// prefills says whether item i, at the end of the list, is the beginning of the answer: what the
// model is to go on with.
func (r *Request) prefills(i int) bool {
	if r.list[i].role != RoleAssistant {
		return false
	}
	it := r.Item(i)
	return it.Text != "" && len(it.Calls) == 0 && len(it.Served) == 0 && !it.Ref
}

// End is the index behind the last item that is not the beginning of the answer.
func (r *Request) End() int {
	end := len(r.list)
	for end > 0 && r.prefills(end-1) {
		end--
	}
	return end
}

// Prefilled is the beginning of the answer that the list ends with, "" for none. The client may
// send it back before the rest or leave it out.
func (r *Request) Prefilled() string {
	end := r.End()
	if end == len(r.list) {
		return ""
	}
	return strings.Clone(r.Item(end).Text)
}

// LastUser is the index of the newest user item of the new part that has words of the user and a
// place for a block before them; -1 when there is none.
func (r *Request) LastUser() int {
	for i := len(r.list) - 1; i >= r.New(); i-- {
		if r.list[i].role != RoleUser {
			continue
		}
		if it := r.Item(i); it.HasText && it.Words != "" {
			return i
		}
	}
	return -1
}

// NewWords are the words of all user items of the new part, oldest first.
func (r *Request) NewWords() []string {
	var words []string
	for i := r.New(); i < len(r.list); i++ {
		if r.list[i].role != RoleUser {
			continue
		}
		if w := r.Item(i).Words; w != "" {
			words = append(words, w)
		}
	}
	return words
}

// NewResults are the tool results of the new part, oldest first.
func (r *Request) NewResults() []ItemResult {
	var out []ItemResult
	for i := r.New(); i < len(r.list); i++ {
		if len(r.resultsOf(i)) == 0 && r.list[i].role != RoleUser {
			continue
		}
		for _, res := range r.Item(i).Results {
			out = append(out, ItemResult{i, res})
		}
	}
	return out
}

// CallOf looks the call of a result up in the list, newest first. In a delta request it usually is
// not there. Each item is read for it at most once, from the end as far as anyone asked: nearly
// always that is the last answer.
func (r *Request) CallOf(callID string) (Call, bool) {
	if callID == "" {
		return Call{}, false
	}
	c := r.calls[callID]
	for c == nil && r.called < len(r.list) {
		r.called++
		i := len(r.list) - r.called
		if role := r.list[i].role; role == RoleAssistant || role == RoleUser && Unnamed(callID) {
			c = r.readCalls(i, callID)
		}
	}
	if c == nil {
		return Call{}, false
	}
	return *c, true
}

// readCalls files the calls of item i, and gives the wanted one where it is among them. Of equal
// ids the newest counts, in one answer the first.
func (r *Request) readCalls(i int, wanted string) (found *Call) {
	made := r.Item(i).Calls
	for k := range made {
		c := &made[k]
		if r.calls[c.ID] != nil {
			continue
		}
		if r.calls == nil {
			r.calls = make(map[string]*Call)
		}
		r.calls[c.ID] = c
		if c.ID == wanted {
			found = c
		}
	}
	return found
}

// Some servers give their calls no ids, and some agents write calls and results as plain text. Such
// a call is named here by the place of what answers it: the same in every request while the list is
// only extended. It names nothing outside of its request.
const unnamedMark = "~"

// unnamed is the name of what item i answers.
func unnamed(i int) string { return unnamedMark + strconv.Itoa(i) }

// UnnamedCall is the name of the nth call that item i makes, where the wire has none.
func UnnamedCall(i, n int) string { return unnamed(i + 1 + n) }

// Unnamed says whether a call's id was made here, because the wire has none.
func Unnamed(callID string) bool { return strings.HasPrefix(callID, unnamedMark) }

// wireID is the id as it stands on the wire: what is made here depends on the place and is no part
// of a content's hash.
func wireID(callID string) string {
	if Unnamed(callID) {
		return ""
	}
	return callID
}

// nameCalls names the calls of item i that have no id: servers without ids are answered in the
// order of the calls.
func nameCalls(calls []Call, i int) {
	for n := range calls {
		if calls[n].ID == "" {
			calls[n].ID = UnnamedCall(i, n)
		}
	}
}

// isNamed says whether item i holds a tool result that is found by the id of its call.
func (r *Request) isNamed(i int) bool {
	results := r.resultsOf(i)
	return len(results) > 0 && (r.Dialect != Chat || results[0].call != xxhash.Sum64(nil))
}

// EchoCall is the key of a call by what it asks for. A reply without ids has nothing else in common
// with the request behind it. The arguments may come back with other spaces.
func EchoCall(c *Call) string {
	sum := uint64(0)
	if args := []byte(c.Args); len(args) > 0 && args[0] == '{' && valid(args) {
		sum = hashValue(args, span{0, len(args)})
	} else {
		sum = xxhash.Sum64String(strings.TrimSpace(c.Args))
	}
	return hex16(mix(xxhash.Sum64String(c.Name), sum))
}
