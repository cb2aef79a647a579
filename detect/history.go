package detect

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"precept/internal/wire"
)

// history reads a conversation backwards, batch by batch. A batch is one model answer with its calls, and the results
// and user turns that come after the answer.
type history struct {
	req          *wire.Request
	results      *Results // cache of judgements; may be nil
	firstNew     int      // index of the first new item
	answerStart  int      // index of the answer that has the newest batch's calls
	unreadEnd    int      // items before this index are not read yet
	steps        []*step  // newest first
	batchNumber  int
	visitsLeft   int                            // number of stepBack calls that may still return a step
	searchCount  int                            // number of searches by hasEarlierCall so far
	earlierCalls map[uint64]bool                // identities of calls before answerStart; nil while searchCount <= maxSearches
	warnedCalls  map[string]bool                // ids of calls that got a warning
	recall       func(string) (wire.Call, bool) // returns calls in earlier replies by id; may be nil
}

// stepBack returns the i-th step before the newest one, or nil if there is no such step or no visits are left.
func (h *history) stepBack(i int) *step {
	if h.visitsLeft--; h.visitsLeft < 0 {
		return nil
	}
	for i >= len(h.steps) {
		if !h.readBatch() {
			return nil
		}
	}
	return h.steps[i]
}

// readBatch adds one more batch to steps. It returns false at the start of the conversation.
func (h *history) readBatch() bool {
	if h.unreadEnd <= 0 {
		return false
	}
	h.batchNumber++
	first, media := len(h.steps), uint64(0)
	for h.unreadEnd > 0 && h.req.Role(h.unreadEnd-1) != wire.RoleAssistant {
		h.unreadEnd--
		h.readItem(h.unreadEnd)
		media = media*31 + h.req.MediaHash(h.unreadEnd)
	}
	// Results cannot contain some kinds of media, so agents put them into the message after the results. It is unknown
	// which result the media belong to, so they count for each result.
	for _, s := range h.steps[first:] {
		s.mediaHash += media
	}
	calls := map[string]wire.Call{}
	var ordered []wire.Call
	for h.unreadEnd > 0 && h.req.Role(h.unreadEnd-1) == wire.RoleAssistant {
		h.unreadEnd--
		itemCalls := h.req.Item(h.unreadEnd).Calls
		for _, c := range itemCalls {
			calls[c.ID] = c
		}
		for _, c := range slices.Backward(itemCalls) {
			ordered = append(ordered, c)
		}
	}
	slices.Reverse(ordered)
	h.assignCalls(h.steps[first:], calls, ordered)
	return true
}

func (h *history) readItem(i int) {
	role := h.req.Role(i)
	if role != wire.RoleUser && role != wire.RoleTool {
		return
	}
	if words, ok := userWords(h.req, i); ok {
		h.steps = append(h.steps, &step{item: i, isUser: true, turn: userTurn{words: words}})
	}
	results := h.req.Item(i).Results
	for n, r := range slices.Backward(results) {
		if r.WithCall { // the model made this call after it saw the earlier results
			h.batchNumber++
		}
		h.steps = append(h.steps, &step{
			call: &judgedCall{result: callResult{text: trimLabel(r), flag: r.IsError}},
			item: i, resultIndex: n, batch: h.batchNumber, callID: r.CallID, mediaHash: r.MediaHash,
			inUserText: r.InUserText, hasCall: r.WithCall, isAutomatic: r.WithCall && r.Block < 0,
			hasWarning: r.CallID != "" && h.warnedCalls[r.CallID],
		})
	}
}

// assignCalls sets each result's call. calls holds the answer's calls by id, and ordered holds the same calls in order,
// for results without an id.
func (h *history) assignCalls(steps []*step, calls map[string]wire.Call, ordered []wire.Call) {
	n := 0
	for _, s := range slices.Backward(steps) {
		if s.isUser {
			continue
		}
		call, ok := calls[s.callID]
		switch {
		case s.callID == "":
			if ok = n < len(ordered); ok {
				call = ordered[n]
			}
		case !ok:
			call, ok = findCall(h.req, s.callID, h.recall)
		}
		n++
		if !ok {
			continue
		}
		s.call.result.tool, s.call.result.args = call.Name, call.Args
		if s.item >= h.firstNew {
			s.call = h.results.entry(s.call.result)
		}
	}
}

// findCall returns the call with an id. If the call is not in the request, findCall asks recall, unless recall is nil.
func findCall(req *wire.Request, id string, recall func(string) (wire.Call, bool)) (wire.Call, bool) {
	call, ok := req.FindCall(id)
	if !ok && recall != nil {
		return recall(id)
	}
	return call, ok
}

// hasEarlierCall reports whether an earlier answer made the same call, or a call that differs only in budgets
// (attempts.go). Because decoding is expensive, it decodes only items that contain all of the call's literals (see
// toolCall.literals).
func (h *history) hasEarlierCall(s *step) bool {
	if s.hasCall {
		return true
	}
	if h.searchCount++; h.searchCount > maxSearches {
		return h.hasIndexedCall(s)
	}
	words := slices.Clone(s.literals())
	hashWithoutBudget := s.identityWithoutBudget()
	if !s.inUserText { // if the result is in user text, package wire has made up the tool name
		words = append(words, s.call.result.tool)
	}
	needles := newNeedles(words)
	for i := h.answerStart - 1; i >= 0; i-- {
		if h.req.Role(i) != wire.RoleAssistant || !containsAll(h.req.Raw(i), needles) {
			continue
		}
		for _, c := range h.req.Item(i).Calls {
			if c.Name != s.call.result.tool {
				continue
			}
			if hashWithoutBudget != 0 && identityWithoutBudget(c.Name, c.Args) == hashWithoutBudget || callIdentity(c.Name, c.Args) == s.identity() {
				return true
			}
		}
	}
	return false
}

// hasEarlierResult reports whether one of the last items before answerStart may contain an equal result. It searches
// the raw bytes of these items for a part of the result that JSON writes without escapes.
func (h *history) hasEarlierResult(s *step) bool {
	const maxItems, maxRaw = 8, 1 << 10
	lead := []byte(unescapedLead(s.call.result.text))
	if len(lead) == 0 {
		return false
	}
	for i, itemsLeft := h.answerStart-1, maxItems; i >= 0 && itemsLeft > 0; i-- {
		if h.req.Role(i) == wire.RoleAssistant {
			continue
		}
		itemsLeft--
		if raw := h.req.Raw(i); bytes.Contains(raw[:min(len(raw), maxRaw)], lead) {
			return true
		}
	}
	return false
}

// unescapedLead returns the longest part near the start of a text that JSON writes without escapes.
func unescapedLead(text string) string {
	const window, maxLead = 120, 32
	longest := ""
	text = cutText(text, window)
	start := 0
	for i := 0; i <= len(text); i++ {
		if i < len(text) && text[i] >= ' ' && text[i] < utf8.RuneSelf && strings.IndexByte(`"\<>&`, text[i]) < 0 {
			continue
		}
		if i-start > len(longest) {
			longest = text[start:i]
		}
		start = i + 1
	}
	return cutText(longest, maxLead)
}

// hasIndexedCall does the same as hasEarlierCall, but uses an index of all earlier calls, so that the cost of an answer
// with many calls stays linear.
func (h *history) hasIndexedCall(s *step) bool {
	if h.earlierCalls == nil {
		h.earlierCalls = make(map[uint64]bool)
		for i := range h.answerStart {
			if h.req.Role(i) != wire.RoleAssistant {
				continue
			}
			for _, c := range h.req.Item(i).Calls {
				h.earlierCalls[callIdentity(c.Name, c.Args)] = true
				h.earlierCalls[uint64(identityWithoutBudget(c.Name, c.Args))] = true
			}
		}
	}
	return h.earlierCalls[s.identity()] || s.identityWithoutBudget() != 0 && h.earlierCalls[uint64(s.identityWithoutBudget())]
}

// needle is a word to search for. The search looks for the word's rarest byte, because its first byte may occur too
// often.
type needle struct {
	word         string
	rarestOffset int // offset of the rarest byte in word
	rarity       int // index of the rarest byte in commonBytes, or len(commonBytes)
}

// commonBytes lists the most frequent bytes in the JSON of calls, the most frequent first.
const commonBytes = `" \,:{}[]etaonirslcdupmfhg_bywkv/.-0123456789`

// newNeedles returns needles for words. The needle with the rarest byte comes first, because it rejects most items.
func newNeedles(words []string) []needle {
	list := make([]needle, 0, len(words))
	for _, word := range words {
		n := needle{word: word, rarity: -1}
		for i := range len(word) {
			rare := strings.IndexByte(commonBytes, word[i])
			if rare < 0 {
				rare = len(commonBytes)
			}
			if rare > n.rarity {
				n.rarestOffset, n.rarity = i, rare
			}
		}
		list = append(list, n)
	}
	slices.SortStableFunc(list, func(a, b needle) int { return b.rarity - a.rarity })
	return list
}

func containsAll(raw []byte, words []needle) bool {
	return !slices.ContainsFunc(words, func(n needle) bool { return !n.occursIn(raw) })
}

func (n needle) occursIn(raw []byte) bool {
	for from := n.rarestOffset; from < len(raw) && len(n.word) > 0; from++ {
		i := bytes.IndexByte(raw[from:], n.word[n.rarestOffset])
		if i < 0 {
			return false
		}
		from += i
		if tail := raw[from-n.rarestOffset:]; len(tail) >= len(n.word) && string(tail[:len(n.word)]) == n.word {
			return true
		}
	}
	return len(n.word) == 0
}

// userWords returns the user's own words in an item. The bool is false if there are none, or if a harness wrote the
// text.
func userWords(req *wire.Request, i int) (string, bool) {
	if req.Role(i) != wire.RoleUser {
		return "", false
	}
	it := req.Item(i)
	words := it.UserText
	if words == "" || it.ResultInferred() {
		return "", false
	}
	if _, synthetic := SyntheticRule(words); synthetic {
		return "", false
	}
	return words, true
}

// Bounds for a harness's label before a result.
const (
	maxLabel      = 80 // bytes per line
	maxLabelLines = 3
)

// trimLabel returns a result's text. If the result is in a user message, trimLabel removes the label that the harness
// writes before a failure ("Command make returned:").
func trimLabel(r wire.Result) string {
	if !r.Inferred {
		return r.Text
	}
	rest := r.Text
	for range maxLabelLines {
		if Classify("", "", rest, 0).Outcome == Error {
			return rest
		}
		line, below, _ := strings.Cut(rest, "\n")
		if len(line) > maxLabel {
			break
		}
		if _, value, _ := strings.Cut(line, ": "); Classify("", "", value, 0).Outcome == Error {
			return rest[len(line)-len(value):]
		}
		rest = below
	}
	return r.Text
}

// The client determines the size of a request, so the loop search needs bounds.
const (
	maxLoops    = 64
	maxVisits   = 1 << 18 // calls of stepBack per request
	maxSearches = 8       // searches in the raw history; for further results, an index is used
)
