package wire

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"precept/internal/label"
)

// Hints holds the ids in a body that may identify a session.
type Hints struct {
	MetadataSession string // metadata.session_id
	UserIDSession   string // from Claude Code's metadata.user_id; see userSession
	PromptCacheKey  string
	PreviousID      string // previous_response_id
	Conversation    string // string or {id}
}

// Request is a parsed request body. It holds positions in Body, which must not change. Items and hashes are computed at
// the first use, so a Request is not safe for concurrent use.
type Request struct {
	Dialect            Dialect
	Body               []byte
	Model              string
	NoGeneration       bool // generate: false, as in Codex's warm-up request
	RequestsCompaction bool // responses: the list ends with a compaction_trigger, and the reply is the shortened conversation
	Hints              Hints
	Delta              bool     // the list is not the whole history (previous_response_id, conversation)
	Tools              []string // sorted names, with namespace members and additional_tools items

	// SystemHash covers the system prompt and the leading system items. ListHash is an xxhash64 over the raw list,
	// combined with previous_response_id. A retry has the same ListHash, even in another process.
	SystemHash, ToolsHash, ListHash uint64

	members requestMembers
	scan    requestScan
	memo    requestMemo
}

type requestMembers struct {
	firstMember int  // offset of the first member's name
	system      span // system or instructions
	// misspelt is a "system" or "instructions" member with a name in a different case, such as "System", which some
	// upstreams accept.
	misspelt   span
	tools      span // or functions
	format     span // response_format, text or output_format
	toolChoice span
}

// requestScan holds the positions in the list.
type requestScan struct {
	list       []entry
	results    []scannedResult
	firstIndex int // index of the first item, if this list is part of a longer one
	firstNew   int // see FirstNew
}

// requestMemo holds values that are computed at the first use.
type requestMemo struct {
	items            paged[*Item]
	calls            map[string]*Call // by id, from the newest items on; filled by FindCall
	decodedCallItems int              // number of items at the end of the list whose calls are all in the map calls
	lines            itemLines        // line offsets in a growing message
	newResults       []ItemResult     // valid if hasNewResults
	hasNewResults    bool
	resultsByCall    map[uint64][]int32 // result indices by call id hash
	splitParts       []part             // parts of item splitItem-1
	splitItem        int                // index plus one of the item that was split last, or 0
	resultsWithoutID map[uint64][]int   // indices of results without a call id, by content hash
	hashes           paged[itemHash]
	pairCounts       map[uint64]int // number of equal pairs of call and result, by pairKey; built by countPairs
	hasRepeatedPair  bool           // a call outside a code fence got the same result twice
}

// paged holds a value for each list item, in pages that are allocated at the first use. Usually only the first and the
// newest items are read, so the memory hardly grows with the conversation.
type paged[T any] struct{ pages []*[pageItems]T }

const pageItems = 16

func (p *paged[T]) at(i, n int) *T {
	if p.pages == nil {
		p.pages = make([]*[pageItems]T, (n+pageItems-1)/pageItems)
	}
	page := &p.pages[i/pageItems]
	if *page == nil {
		*page = new([pageItems]T)
	}
	return &(*page)[i%pageItems]
}

type itemHash struct {
	sum   uint64
	known bool
}

// entry is a list item's position and role.
type entry struct {
	start, end    int32
	role          Role
	resultsBefore int32 // number of earlier entries in requestScan.results
}

// scannedResult is a tool result's position: the item's index and, in the Messages API, the block's index.
type scannedResult struct {
	item, block int32
	call        uint64 // call id hash
}

const maxBody = math.MaxInt32 // offsets must fit into an int32

// Parse returns the request in body, with the positions of the message list and the other members that precept needs.
// It copies only short strings. The error is an *Uninspected.
func Parse(d Dialect, body []byte) (*Request, error) {
	r, _, err := parse(d, body, 0)
	return r, err
}

// request returns the Request for a scan that ended at offset end. resumed is the checkpoint where the scan resumed, or
// nil.
func (p *parser) request(end int, resumed *checkpoint) (*Request, error) {
	body := p.scan.b
	switch {
	case p.overLimit:
		return nil, &Uninspected{label.UninspectedItems}
	case p.scan.deep:
		return nil, &Uninspected{label.UninspectedDepth}
	case end < 0 || p.scan.skipSpace(end) != len(body):
		return nil, &Uninspected{label.UninspectedInvalid}
	case p.hasRepeatedKey():
		return nil, &Uninspected{label.UninspectedDuplicate}
	case p.spans.list.empty():
		return nil, &Uninspected{label.UninspectedNoList}
	case !p.listFits():
		return nil, &Uninspected{label.UninspectedListType}
	}
	r := &Request{Dialect: p.dialect, Body: body, scan: requestScan{list: p.list, results: p.results, firstIndex: p.firstIndex}}
	r.members = requestMembers{firstMember: p.scan.skipSpace(p.scan.skipSpace(0) + 1), system: p.spans.system, misspelt: p.spans.misspelt, tools: p.spans.tools, format: p.spans.format, toolChoice: p.spans.toolChoice}
	r.setMembers(&p.spans, p.tools, resumed)
	return r, nil
}

func (p *parser) listFits() bool {
	switch firstByteAt(p.scan.b, p.spans.list) {
	case '[':
		return !p.hasNonObject && (len(p.list) > 0 || p.dialect == Responses)
	case '"':
		return p.dialect == Responses
	}
	return false
}

const maxPlainKeys = 64

// hasRepeatedKey reports whether two top-level keys are equal, ignoring escapes and case. JSON readers differ in which
// of the two members they use, so such a body is not rewritten.
func (p *parser) hasRepeatedKey() bool {
	b := p.scan.b
	if len(p.keys) > maxPlainKeys || slices.ContainsFunc(p.keys, func(k span) bool { return !isPlainKey(k.of(b)) }) {
		return p.hasRepeatedFoldedKey()
	}
	for i, k := range p.keys {
		for _, earlier := range p.keys[:i] {
			if bytes.EqualFold(k.of(b), earlier.of(b)) {
				return true
			}
		}
	}
	return false
}

func isPlainKey(key []byte) bool {
	for _, c := range key {
		if c >= utf8.RuneSelf || c == '\\' {
			return false
		}
	}
	return true
}

func (p *parser) hasRepeatedFoldedKey() bool {
	seen := make(map[string]bool, len(p.keys))
	for _, k := range p.keys {
		// ToUpper folds letters such as U+017F (long s) and U+212A (Kelvin) that other readers treat
		// as s and k; ToLower alone does not.
		name := string(bytes.ToLower(bytes.ToUpper(unescapeBytes(k.of(p.scan.b)))))
		if seen[name] {
			return true
		}
		seen[name] = true
	}
	return false
}

func (r *Request) setMembers(at *memberSpans, tools []span, resumed *checkpoint) {
	b := r.Body
	r.Model = shortText(b, at.model)
	r.NoGeneration = firstByteAt(b, at.generate) == 'f'
	r.Hints = r.hints(at)
	r.Delta = r.Dialect == Responses && (r.Hints.PreviousID != "" || r.Hints.Conversation != "")
	if firstByteAt(b, at.list) == '"' {
		r.scan.list = []entry{{start: int32(at.list.start), end: int32(at.list.end), role: RoleUser}}
	}
	r.RequestsCompaction, r.scan.firstNew = r.endsWithCompaction(), r.findFirstNew()
	r.Tools = make([]string, 0, len(tools))
	for _, v := range tools {
		r.Tools = append(r.Tools, text(b, v))
	}
	slices.Sort(r.Tools)
	r.Tools = slices.Compact(r.Tools)
	r.ToolsHash = hashWords(r.Tools)
	if resumed == nil {
		r.SystemHash, r.ListHash = r.systemHash(at.system), xxhash.Sum64(at.list.of(b))
	} else {
		r.ListHash = resumed.listHash(at.list.of(b))
		r.SystemHash = resumed.systemHash
		if resumed.spans.system != at.system || !resumed.systemFinal {
			r.SystemHash = r.systemHash(at.system)
		}
	}
	if r.Hints.PreviousID != "" { // the same list after a different reply is a different request
		r.ListHash ^= xxhash.Sum64String(r.Hints.PreviousID)
	}
}

func (r *Request) endsWithCompaction() bool {
	if r.Dialect != Responses || len(r.scan.list) == 0 {
		return false
	}
	last := r.scan.list[len(r.scan.list)-1]
	return last.role == RoleOther && text(r.Body, responsesItemAt(r.Body, r.itemSpan(len(r.scan.list)-1)).kind) == "compaction_trigger"
}

func (r *Request) hints(at *memberSpans) Hints {
	b := r.Body
	h := Hints{
		PromptCacheKey:  text(b, at.cacheKey),
		PreviousID:      text(b, at.previous),
		MetadataSession: text(b, member(b, at.metadata, "session_id")),
		UserIDSession:   userSession(text(b, member(b, at.metadata, "user_id"))),
	}
	if h.Conversation = text(b, at.conversation); h.Conversation == "" {
		h.Conversation = text(b, member(b, at.conversation, "id"))
	}
	return h
}

// userSession returns the session id in metadata.user_id, which is a JSON object, or has the older form
// user_<..>_session_<id>.
func userSession(id string) string {
	if strings.HasPrefix(id, "{") {
		if b := []byte(id); valid(b) {
			return text(b, member(b, span{0, len(b)}, "session_id"))
		}
		return ""
	}
	if _, session, ok := strings.Cut(id, "_session_"); ok {
		return session
	}
	return ""
}

// Len returns the number of items in the list. A string in place of the list (responses) is one user item.
func (r *Request) Len() int { return len(r.scan.list) }

// Raw returns item i's bytes in Body.
func (r *Request) Raw(i int) []byte { return r.itemSpan(i).of(r.Body) }

// Role returns item i's role without decoding the item.
func (r *Request) Role(i int) Role { return r.scan.list[i].role }

func (r *Request) itemSpan(i int) span {
	return span{int(r.scan.list[i].start), int(r.scan.list[i].end)}
}

func (r *Request) resultsInItem(i int) []scannedResult {
	to := len(r.scan.results)
	if i+1 < len(r.scan.list) {
		to = int(r.scan.list[i+1].resultsBefore)
	}
	return r.scan.results[r.scan.list[i].resultsBefore:to]
}

// RequiresJSON reports whether response_format, text.format or output_format demands JSON.
func (r *Request) RequiresJSON() bool {
	v := r.members.format
	if inner := member(r.Body, v, "format"); !inner.empty() {
		v = inner
	}
	return strings.HasPrefix(text(r.Body, member(r.Body, v, "type")), "json")
}

// RequiresTool reports whether the answer must be a tool call.
func (r *Request) RequiresTool() bool {
	how := text(r.Body, r.members.toolChoice)
	if firstByteAt(r.Body, r.members.toolChoice) == '{' {
		how = text(r.Body, member(r.Body, r.members.toolChoice, "type"))
	}
	return how != "" && how != "auto" && how != "none" && how != "allowed_tools"
}
