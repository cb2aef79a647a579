package detect

import (
	"bytes"
	"slices"
	"strings"

	"precept/internal/wire"
)

// history reads a conversation backwards, a batch at a time, as far as it is asked to.
type history struct {
	req    *wire.Request
	res    *Results
	fresh  int     // items from here on are new: they are judged by others, too
	first  int     // of the answer that made the newest calls
	next   int     // items before it are not read yet
	steps  []*step // newest first
	batch  int
	visits int             // that are left, over all steps that are judged
	tries  int             // of seenBefore
	before map[uint64]bool // the calls before first, once there were too many tries
	warned map[string]bool
	mem    func(string) (wire.Call, bool)
}

// at is the i-th step back, nil before the first, and when enough of them were looked at.
func (h *history) at(i int) *step {
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

// fill reads the next batch back: results and words, then the answer of the model that made the
// calls. It says false at the start of the list.
func (h *history) fill() bool {
	if h.next <= 0 {
		return false
	}
	h.batch++
	first, beside := len(h.steps), uint64(0)
	for h.next > 0 && h.req.Role(h.next-1) != wire.RoleAssistant {
		h.next--
		h.readItem(h.next)
		beside = beside*31 + h.req.Beside(h.next)
	}
	// Agents put what a result cannot hold into a message behind it.
	for _, s := range h.steps[first:] {
		s.beside += beside
	}
	calls := map[string]wire.Call{}
	var order []wire.Call
	for h.next > 0 && h.req.Role(h.next-1) == wire.RoleAssistant {
		h.next--
		made := h.req.Item(h.next).Calls
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

// readItem appends the steps of one item, newest first.
func (h *history) readItem(i int) {
	role := h.req.Role(i)
	if role != wire.RoleUser && role != wire.RoleTool {
		return
	}
	if words, ok := speaks(h.req, i); ok {
		h.steps = append(h.steps, &step{item: i, person: true, words: words})
	}
	results := h.req.Item(i).Results
	for _, r := range slices.Backward(results) {
		if r.Own { // its call was made when the results before it were known
			h.batch++
		}
		h.steps = append(h.steps, &step{
			judgedCall: &judgedCall{callResult: callResult{text: unlabelled(r), flag: r.IsError}},
			item:       i, batch: h.batch, callID: r.CallID, beside: r.Beside,
			written: r.Written, own: r.Own, unasked: r.Own && r.Block < 0,
			warned: r.CallID != "" && h.warned[r.CallID],
		})
	}
}

// resolve finds the calls of results: by id in the answer before them, or wherever else; by their
// position where a harness sends no ids.
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
			call, ok = callOf(h.req, s.callID, h.mem)
		}
		n++
		if !ok {
			continue
		}
		s.tool, s.args = call.Name, call.Args
		if s.item >= h.fresh {
			s.judgedCall = h.res.of(s.callResult)
		}
	}
}

// callOf finds a call in the list, or else in the session's memory, which may be nil.
func callOf(req *wire.Request, id string, mem func(string) (wire.Call, bool)) (wire.Call, bool) {
	call, ok := req.CallOf(id)
	if !ok && mem != nil {
		return mem(id)
	}
	return call, ok
}

// seenBefore looks for the step's call in the history before its batch, without decoding what
// cannot hold it.
func (h *history) seenBefore(s *step) bool {
	if s.own {
		return true
	}
	if h.tries++; h.tries > maxTries {
		return h.indexed(s)
	}
	words := s.look().literals(s.args)
	if !s.written { // else its name is ours
		words = append(words, s.tool)
	}
	needles := needlesOf(words)
	for i := h.first - 1; i >= 0; i-- {
		if h.req.Role(i) != wire.RoleAssistant || !holds(h.req.Raw(i), needles) {
			continue
		}
		for _, c := range h.req.Item(i).Calls {
			if c.Name == s.tool && callKey(c.Name, c.Args) == s.identity() {
				return true
			}
		}
	}
	return false
}

// indexed is seenBefore for an answer of many calls: the history is read once for all of them.
func (h *history) indexed(s *step) bool {
	if h.before == nil {
		h.before = make(map[uint64]bool)
		for i := range h.first {
			if h.req.Role(i) != wire.RoleAssistant {
				continue
			}
			for _, c := range h.req.Item(i).Calls {
				h.before[callKey(c.Name, c.Args)] = true
			}
		}
	}
	return h.before[s.identity()]
}

// needle is a word that is looked for by the byte of it that stands least often in what agents
// send: by its first one the search would stop at every other word.
type needle struct {
	word     []byte
	at, rare int
}

// common are the bytes of calls, the most frequent ones first. All others are rare.
const common = `" \,:{}[]etaonirslcdupmfhg_bywkv/.-0123456789`

// needlesOf makes them of words, with the one first that is likely to be missing.
func needlesOf(words []string) []needle {
	list := make([]needle, 0, len(words))
	for _, word := range words {
		n := needle{word: []byte(word), rare: -1}
		for i, c := range n.word {
			rare := strings.IndexByte(common, c)
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

// holds says whether the bytes of an item hold all of the words.
func holds(raw []byte, words []needle) bool {
	return !slices.ContainsFunc(words, func(n needle) bool { return !n.in(raw) })
}

func (n needle) in(raw []byte) bool {
	for from := n.at; from < len(raw) && len(n.word) > 0; from++ {
		i := bytes.IndexByte(raw[from:], n.word[n.at])
		if i < 0 {
			return false
		}
		from += i
		if bytes.HasPrefix(raw[from-n.at:], n.word) {
			return true
		}
	}
	return len(n.word) == 0
}

// speaks says whether item i is a turn of a person: words of a user that no agent wrote.
func speaks(req *wire.Request, i int) (string, bool) {
	if req.Role(i) != wire.RoleUser {
		return "", false
	}
	it := req.Item(i)
	words := it.Words
	if words == "" || it.Alike() {
		return "", false
	}
	if _, synthetic := Synthetic(words); synthetic {
		return "", false
	}
	return words, true
}

// Bounds of what an agent puts before a result to say that it is one.
const (
	maxLabel      = 80
	maxLabelLines = 3
)

// unlabelled is the text of a result. One of an unknown form may begin with a label ("Command make
// returned:"), behind which a failure speaks.
func unlabelled(r wire.Result) string {
	if !r.Alike {
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
		if _, behind, _ := strings.Cut(line, ": "); Classify("", "", behind, 0).Outcome == Error {
			return rest[len(line)-len(behind):]
		}
		rest = below
	}
	return r.Text
}

// Bounds of the search in one request, which a client can make as large as it likes.
const (
	maxLoops  = 64      // loops reported
	maxVisits = 1 << 18 // steps looked back at, over all results that are judged
	maxTries  = 8       // results for which the history's bytes are searched; then an index is made
)
