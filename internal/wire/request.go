package wire

import (
	"bytes"
	"math"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"precept/internal/label"
)

// Hints are the session ids found in a body, "" where absent.
type Hints struct {
	MetadataSession string // metadata.session_id
	UserIDSession   string // the session inside metadata.user_id (a JSON string of claude, or its older _session_ form)
	PromptCacheKey  string
	PreviousID      string // previous_response_id
	Conversation    string // conversation, string or {id}
}

// Request is what was found in a request body. It refers to Body and is valid as long as Body is
// not reused. One goroutine at a time may use it: items and hashes are decoded when first asked
// for, and kept.
type Request struct {
	Dialect Dialect
	Body    []byte
	Model   string
	NoRun   bool // codex's warm-up, generate:false
	Compact bool // responses: the list ends with a compaction_trigger, the reply is the conversation made short
	Hints   Hints
	Delta   bool     // the list is not the whole history (previous_response_id, conversation)
	Tools   []string // names of the tools, sorted; namespace tools flattened; those of additional_tools items, too

	// SystemHash is over the texts of instructions/system and of the leading system items.
	// ToolsHash is over the sorted names. ListHash is xxhash64 over the raw bytes of the list:
	// equal for a retry, stable across processes.
	SystemHash, ToolsHash, ListHash uint64

	base    int  // the place of the first item in the list that this one is a piece of
	top     int  // the offset of the first top-level member
	system  span // system or instructions
	format  span // what says in which form the answer is to be
	choice  span // tool_choice
	fresh   int  // see New
	list    []entry
	results []resultAt
	items   []*Item            // those that were decoded
	calls   map[string]*Call   // of the newest items, by id: what CallOf has read so far,
	called  int                // and how many items that was
	byCall  map[uint64][]int32 // indices of results by call; made when first asked for
	split   []part             // the content of the item that was split last,
	splitOf int                // which is this one, plus one
	unnamed map[uint64][]int   // indices of the results without a call's id, by hash; made when first asked for
	hashes  []uint64           // of the items; valid where hashed
	hashed  []bool
	alike   map[uint64]int // how often a call was answered by a text, see pairAlike; made when first asked for
	circles bool           // one that is bare was answered alike twice
}

// entry is an item's place in the body and what the scan saw of it.
type entry struct {
	start, end int32
	role       Role
	results    int32 // how many entries of Request.results stand before it; those of item i are results[list[i].results:list[i+1].results]
}

// resultAt is a tool result seen by the scan.
type resultAt struct {
	item, block int32
	call        uint64 // hash of the call's id
}

// maxBody is the longest body whose offsets fit.
const maxBody = math.MaxInt32

// Parse locates the list and what else precept needs. It copies nothing of the body but short
// strings. The error is an *Uninspected.
func Parse(d Dialect, body []byte) (*Request, error) {
	r, _, err := parse(d, body, 0)
	return r, err
}

// request makes the request of a body whose scan ended at end; known is what it was resumed from,
// nil for nothing.
func (p *parser) request(end int, known *known) (*Request, error) {
	body := p.b
	switch {
	case p.over:
		return nil, &Uninspected{label.UninspectedItems}
	case p.deep:
		return nil, &Uninspected{label.UninspectedDepth}
	case end < 0 || p.blank(end) != len(body):
		return nil, &Uninspected{label.UninspectedInvalid}
	case p.repeated():
		return nil, &Uninspected{label.UninspectedDuplicate}
	case p.at.list.empty():
		return nil, &Uninspected{label.UninspectedNoList}
	case !p.listFits():
		return nil, &Uninspected{label.UninspectedListType}
	}
	r := &Request{Dialect: p.dialect, Body: body, list: p.list, results: p.results, base: p.base}
	r.top, r.system, r.format, r.choice = p.blank(p.blank(0)+1), p.at.system, p.at.format, p.at.choice
	r.fill(&p.at, p.tools, known)
	return r, nil
}

// listFits says whether the list has the type that the API wants.
func (p *parser) listFits() bool {
	switch kindAt(p.b, p.at.list) {
	case '[':
		return !p.odd && (len(p.list) > 0 || p.dialect == Responses)
	case '"':
		return p.dialect == Responses
	}
	return false
}

// repeated says whether two top-level keys are the same. Readers differ in which of the two they
// take, some of them fold the case, and a key may be spelled with escapes.
func (p *parser) repeated() bool {
	seen := make(map[string]bool, len(p.keys))
	for _, k := range p.keys {
		// Either way alone leaves letters that others take for an s or a k.
		name := string(bytes.ToLower(bytes.ToUpper(plain(k.of(p.b)))))
		if seen[name] {
			return true
		}
		seen[name] = true
	}
	return false
}

// fill reads the members that the scan located.
func (r *Request) fill(at *places, tools []span, known *known) {
	b := r.Body
	r.Model = short(b, at.model)
	r.NoRun = kindAt(b, at.generate) == 'f'
	r.Hints = r.hints(at)
	r.Delta = r.Dialect == Responses && (r.Hints.PreviousID != "" || r.Hints.Conversation != "")
	if kindAt(b, at.list) == '"' {
		r.list = []entry{{start: int32(at.list.start), end: int32(at.list.end), role: RoleUser}}
	}
	r.Compact, r.fresh = r.compacts(), r.firstNew()
	r.Tools = make([]string, 0, len(tools))
	for _, v := range tools {
		r.Tools = append(r.Tools, text(b, v))
	}
	slices.Sort(r.Tools)
	r.Tools = slices.Compact(r.Tools)
	r.ToolsHash = hashWords(r.Tools)
	if known == nil {
		r.SystemHash, r.ListHash = r.systemHash(at.system), xxhash.Sum64(at.list.of(b))
		return
	}
	r.ListHash = known.listHash(at.list.of(b))
	if r.SystemHash = known.system; known.at.system != at.system || !known.settled {
		r.SystemHash = r.systemHash(at.system)
	}
}

// compacts looks at the last item of a list of the Responses API.
func (r *Request) compacts() bool {
	if r.Dialect != Responses || len(r.list) == 0 {
		return false
	}
	last := r.list[len(r.list)-1]
	return last.role == RoleOther && text(r.Body, respItemAt(r.Body, r.at(len(r.list)-1)).kind) == "compaction_trigger"
}

func (r *Request) hints(at *places) Hints {
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

// userSession finds the session in a metadata.user_id: a JSON object in a string, or
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

// Len is the number of items in the list; a string input (responses) is one user item.
func (r *Request) Len() int { return len(r.list) }

// Raw is the bytes of item i inside Body (string input: the string itself, with its quotes).
func (r *Request) Raw(i int) []byte { return r.at(i).of(r.Body) }

// Role is the role of item i, known without decoding it.
func (r *Request) Role(i int) Role { return r.list[i].role }

func (r *Request) at(i int) span { return span{int(r.list[i].start), int(r.list[i].end)} }

// resultsOf are the tool results that the scan saw in item i.
func (r *Request) resultsOf(i int) []resultAt {
	to := len(r.results)
	if i+1 < len(r.list) {
		to = int(r.list[i+1].results)
	}
	return r.results[r.list[i].results:to]
}

// Shaped says whether the request prescribes JSON for its answer: response_format, text.format,
// output_format.
func (r *Request) Shaped() bool {
	v := r.format
	if inner := member(r.Body, v, "format"); !inner.empty() {
		v = inner
	}
	return strings.HasPrefix(text(r.Body, member(r.Body, v, "type")), "json")
}

// Forced says whether the answer must be a call of a tool.
func (r *Request) Forced() bool {
	how := text(r.Body, r.choice)
	if kindAt(r.Body, r.choice) == '{' {
		how = text(r.Body, member(r.Body, r.choice, "type"))
	}
	return how != "" && how != "auto" && how != "none" && how != "allowed_tools"
}
