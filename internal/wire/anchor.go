package wire

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Anchor names a place in a conversation by content, so that it is found again when the agent
// re-sends its history.
type Anchor struct {
	CallID string `json:"call,omitempty"` // a tool result: by the call's id
	Role   Role   `json:"role,omitempty"` // else: role,
	Hash   uint64 `json:"hash,omitempty"` // canonical content hash,
	Nth    int    `json:"nth,omitempty"`  // and how many equal items (or results of that call) stand before it
	Part   int    `json:"part,omitempty"` // of an item that holds several results without ids: the one's number plus one
	Index  int    `json:"index"`          // where it stood last: a hint, verified before use
}

// AnchorAt makes the anchor of item i (or of System), or, with a call id, of the result of that
// call in it.
func (r *Request) AnchorAt(i int, callID string) Anchor {
	if i == System {
		return Anchor{Role: RoleSystem, Index: System}
	}
	if callID != "" && !Unnamed(callID) {
		return Anchor{CallID: callID, Nth: r.resultsBefore(i, xxhash.Sum64String(callID)), Index: i}
	}
	a := Anchor{Role: r.list[i].role, Hash: r.Hash(i), Nth: r.equalsBefore(i), Index: i}
	for _, res := range r.Item(i).Results {
		if callID != "" && res.CallID == callID && res.Own && res.Block >= 0 {
			a.Part = res.Block + 1
		}
	}
	return a
}

// Find returns the item (or System) where the anchor stands now, and the content block of its tool
// result (-1 for words). Nothing is found where no text could be put.
func (r *Request) Find(a Anchor) (item, block int, ok bool) {
	if a.CallID != "" {
		return r.findResult(a)
	}
	if a.Role == RoleSystem {
		_, ok := r.systemPlace()
		return System, -1, ok
	}
	if i := a.Index; r.stands(a, i) && r.equalsBefore(i) == a.Nth {
		return r.open(i, a.Part)
	}
	nth := 0
	for i := range r.list {
		if !r.stands(a, i) {
			continue
		}
		if nth == a.Nth {
			return r.open(i, a.Part)
		}
		nth++
	}
	return 0, 0, false
}

// open is where text goes in item i: before the words, or at the top of its result.
func (r *Request) open(i, part int) (item, block int, ok bool) {
	block = part - 1
	if results := r.Item(i).Results; r.list[i].role == RoleTool && len(results) > 0 && part == 0 {
		block = results[0].Block
	}
	_, ok = r.placeOf(i, block)
	return i, block, ok
}

// stands says whether item i is what the anchor names, but for its Nth.
func (r *Request) stands(a Anchor, i int) bool {
	return i >= 0 && i < len(r.list) && r.list[i].role == a.Role && r.Hash(i) == a.Hash
}

// equalsBefore counts the items before i that are equal to it. One with tool results has no equal:
// the call ids are in its hash; leaving those out spares hashing the whole history of a tool loop.
func (r *Request) equalsBefore(i int) int {
	if r.list[i].role != RoleTool && len(r.resultsOf(i)) > 0 {
		return 0
	}
	if r.list[i].role == RoleTool {
		if r.isNamed(i) {
			return 0
		}
		n, _ := slices.BinarySearch(r.unnamedLike(i), i)
		return n
	}
	n := 0
	for j := range i {
		if r.list[j].role == r.list[i].role && len(r.resultsOf(j)) == 0 && r.Hash(j) == r.Hash(i) {
			n++
		}
	}
	return n
}

// unnamedLike are the results without a call's id that are equal to item i, in the order of the
// list.
func (r *Request) unnamedLike(i int) []int {
	if r.unnamed == nil {
		r.unnamed = make(map[uint64][]int)
		for j := range r.list {
			if r.list[j].role == RoleTool && !r.isNamed(j) {
				r.unnamed[r.Hash(j)] = append(r.unnamed[r.Hash(j)], j)
			}
		}
	}
	return r.unnamed[r.Hash(i)]
}

// resultsBefore counts the results of a call in the items before i. Ids should be unique; some
// servers count from zero in every reply.
func (r *Request) resultsBefore(i int, call uint64) int {
	same := r.resultsTo(call)
	n, _ := slices.BinarySearchFunc(same, i, func(at int32, i int) int { return cmp.Compare(int(r.results[at].item), i) })
	return n
}

func (r *Request) findResult(a Anchor) (item, block int, ok bool) {
	same := r.resultsTo(xxhash.Sum64String(a.CallID))
	for _, at := range same[min(max(a.Nth, 0), len(same)):] { // more than one only where two ids have the same hash
		res := &r.results[at]
		if found := r.Item(int(res.item)).result(int(res.block)); found != nil && found.CallID == a.CallID {
			_, ok = r.placeOf(int(res.item), found.Block)
			return int(res.item), found.Block, ok
		}
	}
	return 0, 0, false
}

// resultsTo are the results of a call, as indices, in the order of the list.
func (r *Request) resultsTo(call uint64) []int32 {
	if r.byCall == nil {
		r.byCall = make(map[uint64][]int32, len(r.results))
		for i := range r.results {
			of := r.results[i].call
			r.byCall[of] = append(r.byCall[of], int32(i)) //nolint:gosec // there are fewer than bytes, whose offsets fit
		}
	}
	return r.byCall[call]
}

// result is the tool result in that block of the content, nil when there is none.
func (it *Item) result(block int) *Result {
	i, ok := slices.BinarySearchFunc(it.Results, block, func(res Result, block int) int { return cmp.Compare(res.Block, block) })
	if !ok {
		return nil
	}
	return &it.Results[i]
}

// Echo lists the keys by which item i can be recognised later: "c:"+call id of its calls and
// results, "i:"+item id, "t:"+hash of assistant text (only when it has no calls, or writes them as
// text).
func (r *Request) Echo(i int) []string {
	it := r.Item(i)
	var keys []string
	for n := range it.Calls {
		if !it.Calls[n].IsWritten() {
			keys = appendCall(keys, &it.Calls[n])
		}
	}
	if n := len(it.steps); n > 0 && it.steps[n-1].thought != "" {
		keys = append(keys, stepKey(it.steps[n-1].thought, &it.steps[n-1].call))
	}
	for _, res := range it.Results {
		keys = appendKey(keys, "c:", wireID(res.CallID))
	}
	keys = appendKey(keys, "i:", it.ID)
	for _, id := range it.Served {
		keys = appendKey(keys, "i:", id)
	}
	if it.Role == RoleAssistant && (len(it.Calls) == 0 || it.Calls[0].IsWritten()) {
		keys = appendKey(keys, "t:", EchoText(it.Text))
		keys = appendWritten(keys, it.Text)
	}
	return keys
}

// writtenCalls is how smolagents begins what it writes of its calls into the text of an answer.
const writtenCalls = "Calling tools:\n["

// appendWritten appends the ids of calls that stand in a text.
func appendWritten(keys []string, text string) []string {
	_, rest, ok := strings.Cut(text, writtenCalls)
	for n := 0; ok && n < 16; n++ {
		if _, rest, ok = strings.Cut(rest, "'id': '"); !ok {
			break
		}
		if id, _, found := strings.Cut(rest[:min(len(rest), 256)], "'"); found {
			keys = appendKey(keys, "c:", id)
		}
	}
	return keys
}

// appendCall appends the key of a call: its id, or what it asks for where it has none, which counts
// as little as a text.
func appendCall(keys []string, c *Call) []string {
	if c.ID == "" || Unnamed(c.ID) {
		return append(keys, "t:"+EchoCall(c))
	}
	return append(keys, "c:"+c.ID)
}

func appendKey(keys []string, prefix, id string) []string {
	if id == "" {
		return keys
	}
	return append(keys, prefix+id)
}

// endOfCode is where smolagents has the API stop; it writes the word itself where the reply does
// not hold it.
const endOfCode = "</code>"

// EchoText is the key of an assistant's text, "" for an empty one: the same in a reply and in the
// requests behind it. Agents trim what they keep, and what one of them writes behind it is not the
// model's.
func EchoText(text string) string {
	if head, _, ok := strings.Cut(text, "\n"+writtenCalls); ok {
		text = head
	}
	if head, _, ok := strings.Cut(text, askOpen); ok { // Qwen-Agent writes the calls anew
		if c, ok := tagCall(text); ok {
			text = strings.TrimSpace(head) + " " + EchoCall(&c)
		}
	}
	text = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), endOfCode))
	if text == "" {
		return ""
	}
	return hex16(xxhash.Sum64String(text))
}
