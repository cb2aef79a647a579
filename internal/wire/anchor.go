package wire

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Anchor identifies the conversation item into which a block (text from precept) was inserted, so that every later
// request gets the block at the same place. It identifies the item by content, because the index changes if the agent
// drops old messages.
type Anchor struct {
	CallID string `json:"call,omitempty"` // call id, for a tool result
	Role   Role   `json:"role,omitempty"` // role, for other items
	Hash   uint64 `json:"hash,omitempty"` // canonical content hash; 0 for a result in sessions from earlier releases
	Nth    int    `json:"nth,omitempty"`  // number of equal items (or results for the call) before the item
	Part   int    `json:"part,omitempty"` // for a tool result in the same item as the call: Result.Block plus one; for a system prompt in the list: 1; otherwise 0
	Index  int    `json:"index"`          // last known item index, verified by Find
}

// AnchorAt returns the anchor for item i, for the system text if i is System, or for a call's result in item i.
func (r *Request) AnchorAt(i int, callID string) Anchor {
	if i == System {
		a := Anchor{Role: RoleSystem, Index: System}
		if r.hasSystemItem() {
			a.Part = 1
		}
		return a
	}
	if callID != "" && !IsGeneratedID(callID) {
		return Anchor{CallID: callID, Hash: r.Hash(i), Nth: r.countResultsBefore(i, xxhash.Sum64String(callID)), Index: i}
	}
	a := Anchor{Role: r.scan.list[i].role, Hash: r.Hash(i), Nth: r.countEqualBefore(i), Index: i}
	for _, res := range r.Item(i).Results {
		if callID != "" && res.CallID == callID && res.WithCall && res.Block >= 0 {
			a.Part = res.Block + 1
		}
	}
	return a
}

// IsInstructions reports whether the anchor is a system prompt outside the list. A provider that stores the list does
// not store such a prompt.
func (a Anchor) IsInstructions() bool { return a.Role == RoleSystem && a.Part == 0 }

// Find returns the index of the anchor's item, or System. block is the tool result's index in the content, or -1 for
// the user's text. ok is false if the item is missing, or has no place for text.
func (r *Request) Find(a Anchor) (item, block int, ok bool) {
	if a.CallID != "" {
		return r.findResult(a)
	}
	if a.Role == RoleSystem {
		_, ok := r.systemPlace()
		return System, -1, ok
	}
	if i := a.Index; r.matches(a, i) && r.countEqualBefore(i) == a.Nth {
		return r.position(i, a.Part)
	}
	nth := 0
	for i := range r.scan.list {
		if !r.matches(a, i) {
			continue
		}
		if nth == a.Nth {
			return r.position(i, a.Part)
		}
		nth++
	}
	return 0, 0, false
}

// position returns Edit.Item and Edit.Block for a block in item i. part is Anchor.Part.
func (r *Request) position(i, part int) (item, block int, ok bool) {
	block = part - 1
	if results := r.Item(i).Results; r.scan.list[i].role == RoleTool && len(results) > 0 && part == 0 {
		block = results[0].Block
	}
	_, ok = r.findPlace(i, block)
	return i, block, ok
}

func (r *Request) matches(a Anchor, i int) bool {
	return i >= 0 && i < len(r.scan.list) && r.scan.list[i].role == a.Role && r.Hash(i) == a.Hash
}

// countEqualBefore returns the number of equal items before item i. For a tool result with a call id, the number is 0,
// because the hash covers the id.
func (r *Request) countEqualBefore(i int) int {
	if r.scan.list[i].role != RoleTool && len(r.resultsInItem(i)) > 0 {
		return 0
	}
	if r.scan.list[i].role == RoleTool {
		if r.hasCallID(i) {
			return 0
		}
		n, _ := slices.BinarySearch(r.equalResultsWithoutID(i), i)
		return n
	}
	n := 0
	for j := range i {
		if r.scan.list[j].role == r.scan.list[i].role && len(r.resultsInItem(j)) == 0 && r.Hash(j) == r.Hash(i) {
			n++
		}
	}
	return n
}

// equalResultsWithoutID returns the indices of all tool results without a call id that equal item i, including i.
func (r *Request) equalResultsWithoutID(i int) []int {
	if r.memo.resultsWithoutID == nil {
		r.memo.resultsWithoutID = make(map[uint64][]int)
		for j := range r.scan.list {
			if r.scan.list[j].role == RoleTool && !r.hasCallID(j) {
				r.memo.resultsWithoutID[r.Hash(j)] = append(r.memo.resultsWithoutID[r.Hash(j)], j)
			}
		}
	}
	return r.memo.resultsWithoutID[r.Hash(i)]
}

func (r *Request) countResultsBefore(i int, call uint64) int {
	results := r.callResults(call)
	n, _ := slices.BinarySearchFunc(results, i, func(at int32, i int) int { return cmp.Compare(int(r.scan.results[at].item), i) })
	return n
}

// findResult returns the position of the call's result. If several results have the id, it compares the content,
// because an agent may have dropped old messages.
func (r *Request) findResult(a Anchor) (item, block int, ok bool) {
	results := r.callResults(xxhash.Sum64String(a.CallID))
	nth := max(a.Nth, 0)
	if (len(results) > 1 || nth >= len(results)) && a.Hash != 0 {
		// An agent drops the oldest messages first, so Nth can only have become smaller.
		nth = min(nth, len(results)-1)
		for nth >= 0 && r.Hash(int(r.scan.results[results[nth]].item)) != a.Hash {
			nth--
		}
		if nth < 0 {
			return 0, 0, false
		}
	}
	for _, at := range results[min(nth, len(results)):] { // the first result matches, unless two ids have the same hash
		res := &r.scan.results[at]
		if found := r.Item(int(res.item)).result(int(res.block)); found != nil && found.CallID == a.CallID {
			_, ok = r.findPlace(int(res.item), found.Block)
			return int(res.item), found.Block, ok
		}
	}
	return 0, 0, false
}

func (r *Request) callResults(wantedHash uint64) []int32 {
	if r.memo.resultsByCall == nil {
		r.memo.resultsByCall = make(map[uint64][]int32, len(r.scan.results))
		for i := range r.scan.results {
			callHash := r.scan.results[i].call
			r.memo.resultsByCall[callHash] = append(r.memo.resultsByCall[callHash], int32(i)) //nolint:gosec // a body has fewer results than bytes, and at most maxBody bytes
		}
	}
	return r.memo.resultsByCall[wantedHash]
}

func (it *Item) result(block int) *Result {
	i, ok := slices.BinarySearchFunc(it.Results, block, func(res Result, block int) int { return cmp.Compare(res.Block, block) })
	if !ok {
		return nil
	}
	return &it.Results[i]
}

// EchoKeys returns the keys that identify item i in a later request:
//   - "c:" and the id of a call, or of the call that a tool result answers
//   - "i:" and an item id, or the id of a part stored by the provider
//   - "t:" and the hash for an assistant text, a call without an id, or the newest step in a growing message
//
// The text of an answer gets no key if the answer has calls in the API's form.
func (r *Request) EchoKeys(i int) []string {
	it := r.Item(i)
	var keys []string
	for n := range it.Calls {
		if !it.Calls[n].IsText() {
			keys = appendCallKey(keys, &it.Calls[n])
		}
	}
	if n := len(it.steps); n > 0 && it.steps[n-1].thought != "" {
		keys = append(keys, stepKey(it.steps[n-1].thought, &it.steps[n-1].call))
	}
	for _, res := range it.Results {
		keys = appendKey(keys, "c:", sentID(res.CallID))
	}
	keys = appendKey(keys, "i:", it.ID)
	for _, id := range it.ProviderIDs {
		keys = appendKey(keys, "i:", id)
	}
	if it.Role == RoleAssistant && (len(it.Calls) == 0 || it.Calls[0].IsText()) {
		keys = appendKey(keys, "t:", TextEchoHash(it.Text))
		keys = appendTextCallIDs(keys, it.Text)
	}
	return keys
}

const textCallsHead = "Calling tools:\n[" // smolagents appends calls to a text

func appendTextCallIDs(keys []string, text string) []string {
	_, rest, ok := strings.Cut(text, textCallsHead)
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

func appendCallKey(keys []string, c *Call) []string {
	if c.ID == "" || IsGeneratedID(c.ID) {
		return append(keys, "t:"+CallEchoHash(c))
	}
	return append(keys, "c:"+c.ID)
}

func appendKey(keys []string, prefix, id string) []string {
	if id == "" {
		return keys
	}
	return append(keys, prefix+id)
}

// codeStopWord is smolagents' stop word, which the agent appends to a reply that does not end with it.
const codeStopWord = "</code>"

// TextEchoHash returns a hash for an assistant's text, or "" for an empty text. It ignores white space at both ends and
// text that agents append, so a reply and the copy in a request have the same hash.
func TextEchoHash(text string) string {
	if head, _, ok := strings.Cut(text, "\n"+textCallsHead); ok {
		text = head
	}
	if head, _, ok := strings.Cut(text, toolCallOpen); ok { // Qwen-Agent sends calls back in a different format
		if c, ok := parseTagCall(text); ok {
			text = strings.TrimSpace(head) + " " + CallEchoHash(&c)
		}
	}
	text = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), codeStopWord))
	if text == "" {
		return ""
	}
	return hex16(xxhash.Sum64String(text))
}
