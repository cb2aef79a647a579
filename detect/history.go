package detect

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"precept/internal/wire"
)

// history reads a conversation backwards, one batch at a time: an answer of the model with its calls, and the
// results and turns after the answer.
type history struct {
	req         *wire.Request
	res         *Results
	firstNew    int     // items from this index on are new
	answerStart int     // index of the first item of the answer that made the newest calls
	unread      int     // items before this index are not read yet
	steps       []*step // newest first
	batch       int
	visits      int             // reads of a step that are left, for all judged steps together
	searches    int             // number of searches for an earlier call in the bytes of the history
	earlier     map[uint64]bool // identities of the calls before answerStart; nil until maxSearches are exceeded
	warned      map[string]bool
	recall      func(string) (wire.Call, bool)
}

// stepBack returns the i-th step back from the newest, nil before the first step and when no visits are left.
func (h *history) stepBack(i int) *step {
	if h.visits--; h.visits < 0 {
		return nil
	}
	for i >= len(h.steps) {
		if !h.fill() {
			return nil
		}
	}
	return h.steps[i]
}

// fill reads the next batch, and reports false if the whole conversation is read.
func (h *history) fill() bool {
	if h.unread <= 0 {
		return false
	}
	h.batch++
	first, media := len(h.steps), uint64(0)
	for h.unread > 0 && h.req.Role(h.unread-1) != wire.RoleAssistant {
		h.unread--
		h.readItem(h.unread)
		media = media*31 + h.req.MediaHash(h.unread)
	}
	// Agents put content that a result cannot hold into the message after the result.
	for _, s := range h.steps[first:] {
		s.mediaHash += media
	}
	calls := map[string]wire.Call{}
	var order []wire.Call
	for h.unread > 0 && h.req.Role(h.unread-1) == wire.RoleAssistant {
		h.unread--
		made := h.req.Item(h.unread).Calls
		for _, c := range made {
			calls[c.ID] = c
		}
		for _, c := range slices.Backward(made) {
			order = append(order, c)
		}
	}
	slices.Reverse(order)
	h.resolve(h.steps[first:], calls, order)
	return true
}

// readItem appends the results and the turn of a person in one item as steps, the newest first.
func (h *history) readItem(i int) {
	role := h.req.Role(i)
	if role != wire.RoleUser && role != wire.RoleTool {
		return
	}
	if words, ok := personWords(h.req, i); ok {
		h.steps = append(h.steps, &step{item: i, person: true, turn: personTurn{words: words}})
	}
	results := h.req.Item(i).Results
	for n, r := range slices.Backward(results) {
		if r.WithCall { // the model knew the results before this call
			h.batch++
		}
		h.steps = append(h.steps, &step{
			call: &judgedCall{result: callResult{text: trimLabel(r), flag: r.IsError}},
			item: i, nth: n, batch: h.batch, callID: r.CallID, mediaHash: r.MediaHash,
			inText: r.InUserText, withCall: r.WithCall, automatic: r.WithCall && r.Block < 0,
			warned: r.CallID != "" && h.warned[r.CallID],
		})
	}
}

// resolve sets the calls of the results: by id from the answer before the results or from an earlier answer,
// and by position where a harness sends no ids.
func (h *history) resolve(steps []*step, calls map[string]wire.Call, order []wire.Call) {
	n := 0
	for _, s := range slices.Backward(steps) {
		if s.person {
			continue
		}
		call, ok := calls[s.callID]
		switch {
		case s.callID == "":
			if ok = n < len(order); ok {
				call = order[n]
			}
		case !ok:
			call, ok = callOf(h.req, s.callID, h.recall)
		}
		n++
		if !ok {
			continue
		}
		s.call.result.tool, s.call.result.args = call.Name, call.Args
		if s.item >= h.firstNew {
			s.call = h.res.entry(s.call.result)
		}
	}
}

// callOf returns a call of the request, or a call of an earlier request from recall, which may be
// nil.
func callOf(req *wire.Request, id string, recall func(string) (wire.Call, bool)) (wire.Call, bool) {
	call, ok := req.CallOf(id)
	if !ok && recall != nil {
		return recall(id)
	}
	return call, ok
}

// hasEarlierCall searches for the call of a step before the batch of the step. The search decodes only
// items that may hold the call.
func (h *history) hasEarlierCall(s *step) bool {
	if s.withCall {
		return true
	}
	if h.searches++; h.searches > maxSearches {
		return h.hasIndexedCall(s)
	}
	words := slices.Clone(s.literals())
	loose := s.looseIdentity()
	if !s.inText { // precept makes the tool name of a result in user text
		words = append(words, s.call.result.tool)
	}
	needles := needlesOf(words)
	for i := h.answerStart - 1; i >= 0; i-- {
		if h.req.Role(i) != wire.RoleAssistant || !hasAll(h.req.Raw(i), needles) {
			continue
		}
		for _, c := range h.req.Item(i).Calls {
			if c.Name != s.call.result.tool {
				continue
			}
			if loose != 0 && looseIdentity(c.Name, c.Args) == loose || callIdentity(c.Name, c.Args) == s.identity() {
				return true
			}
		}
	}
	return false
}

// hasEarlierResult reports whether one of the newest items before the batch of a step may hold the result of the step.
// The search compares the longest text without escapes at the start of the result and decodes no item.
func (h *history) hasEarlierResult(s *step) bool {
	const maxItems, maxRaw = 8, 1 << 10
	lead := []byte(plainLead(s.call.result.text))
	if len(lead) == 0 {
		return false
	}
	for i, left := h.answerStart-1, maxItems; i >= 0 && left > 0; i-- {
		if h.req.Role(i) == wire.RoleAssistant {
			continue
		}
		left--
		if raw := h.req.Raw(i); bytes.Contains(raw[:min(len(raw), maxRaw)], lead) {
			return true
		}
	}
	return false
}

// plainLead returns the longest part of the first bytes of a text that JSON writes without escapes.
func plainLead(text string) string {
	const window, maxLead = 120, 32
	longest := ""
	isEscaped := func(r rune) bool { return r < ' ' || r >= utf8.RuneSelf || strings.ContainsRune(`"\<>&`, r) }
	for part := range strings.FieldsFuncSeq(cutText(text, window), isEscaped) {
		if len(part) > len(longest) {
			longest = part
		}
	}
	return cutText(longest, maxLead)
}

// hasIndexedCall is hasEarlierCall with an index of all earlier calls. An answer with many calls then
// needs one pass over the history.
func (h *history) hasIndexedCall(s *step) bool {
	if h.earlier == nil {
		h.earlier = make(map[uint64]bool)
		for i := range h.answerStart {
			if h.req.Role(i) != wire.RoleAssistant {
				continue
			}
			for _, c := range h.req.Item(i).Calls {
				h.earlier[callIdentity(c.Name, c.Args)] = true
				h.earlier[uint64(looseIdentity(c.Name, c.Args))] = true
			}
		}
	}
	return h.earlier[s.identity()] || s.looseIdentity() != 0 && h.earlier[uint64(s.looseIdentity())]
}

// needle is a searched word with the position (at) and the rank (rare) of its rarest byte. A search for the
// first byte of the word would find too many places.
type needle struct {
	word     string
	at, rare int
}

// common lists the frequent bytes of calls, the most frequent first. All other bytes are rarer.
const common = `" \,:{}[]etaonirslcdupmfhg_bywkv/.-0123456789`

// needlesOf returns needles for words. The needle with the rarest byte comes first, because this needle is most
// likely missing.
func needlesOf(words []string) []needle {
	list := make([]needle, 0, len(words))
	for _, word := range words {
		n := needle{word: word, rare: -1}
		for i := range len(word) {
			rare := strings.IndexByte(common, word[i])
			if rare < 0 {
				rare = len(common)
			}
			if rare > n.rare {
				n.at, n.rare = i, rare
			}
		}
		list = append(list, n)
	}
	slices.SortStableFunc(list, func(a, b needle) int { return b.rare - a.rare })
	return list
}

// hasAll reports whether the bytes of an item contain all words.
func hasAll(raw []byte, words []needle) bool {
	return !slices.ContainsFunc(words, func(n needle) bool { return !n.occursIn(raw) })
}

// occursIn reports whether raw contains the word. The search looks for the byte n.at of the word, which
// is the rarest.
func (n needle) occursIn(raw []byte) bool {
	for from := n.at; from < len(raw) && len(n.word) > 0; from++ {
		i := bytes.IndexByte(raw[from:], n.word[n.at])
		if i < 0 {
			return false
		}
		from += i
		if tail := raw[from-n.at:]; len(tail) >= len(n.word) && string(tail[:len(n.word)]) == n.word {
			return true
		}
	}
	return len(n.word) == 0
}

// personWords returns the words of a person in item i. Words that a harness wrote do not count.
func personWords(req *wire.Request, i int) (string, bool) {
	if req.Role(i) != wire.RoleUser {
		return "", false
	}
	it := req.Item(i)
	words := it.Words
	if words == "" || it.ResultInferred() {
		return "", false
	}
	if _, synthetic := Synthetic(words); synthetic {
		return "", false
	}
	return words, true
}

// Bounds of the label that a harness puts before a result, in bytes per line and in lines.
const (
	maxLabel      = 80
	maxLabelLines = 3
)

// trimLabel returns the text of a result from the failure on, if a label of an unknown form ("Command make
// returned:") is before the failure.
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

// Bounds of the search for loops in one request. A client controls the size of the request.
const (
	maxLoops    = 64      // loops reported
	maxVisits   = 1 << 18 // reads of a step, for all judged results together
	maxSearches = 8       // results for which the bytes of the history are searched before an index is built
)
