package wire

import "strings"

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
	IsError int8   // -1 the wire says no error, +1 it says error, 0 it does not say
	Block   int    // index of the tool_result block in the item's content (messages); 0 elsewhere
	Closed  bool   // no text can be put into it (a computer's screenshot, a null content): Find does not find it
}

// Item is one entry of messages or input, decoded.
type Item struct {
	Index   int
	Role    Role
	ID      string // the item's own id (responses: "id", item_reference's id)
	Ref     bool   // item_reference: ID names something that the provider keeps
	Text    string // user: every text part as sent, joined with \n; assistant: its text; system: its text
	Words   string // user only: the user's own words: the text parts after reminders, environment blocks and our own blocks are stripped; "" when the message has none
	Calls   []Call
	Results []Result
	HasText bool // user: there is a text part that a block can be put before
}

// ItemResult is a tool result with the index of the item that holds it.
type ItemResult struct {
	Item int
	Result
}

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
}

// New is the index of the first item after the last thing that the model said (assistant message, call, reasoning,
// reference to one of these): the new part of the turn. In a delta request it is 0.
func (r *Request) New() int {
	if r.Delta {
		return 0
	}
	for i := len(r.list) - 1; i >= 0; i-- {
		if r.list[i].role == RoleAssistant {
			return i + 1
		}
	}
	return 0
}

// LastUser is the index of the newest user item of the new part that has words of the user and a place for a block
// before them; -1 when there is none.
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
		if len(r.resultsOf(i)) == 0 {
			continue
		}
		for _, res := range r.Item(i).Results {
			out = append(out, ItemResult{i, res})
		}
	}
	return out
}

// CallOf looks the call of a result up in the list, newest first. In a delta request it usually is not there.
func (r *Request) CallOf(callID string) (Call, bool) {
	if callID == "" {
		return Call{}, false
	}
	for i := len(r.list) - 1; i >= 0; i-- {
		if r.list[i].role != RoleAssistant || !r.mentions(i, callID) {
			continue
		}
		for _, c := range r.Item(i).Calls {
			if c.ID == callID {
				return c, true
			}
		}
	}
	return Call{}, false
}

// mentions says whether item i may hold the id: a cheap look before it is decoded. An id that is written with escapes
// is looked for by decoding.
func (r *Request) mentions(i int, id string) bool {
	for j := range len(id) {
		if c := id[j]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '/' {
			return true
		}
	}
	raw := string(r.Raw(i))
	return strings.Contains(raw, id) || strings.Contains(raw, `\u`)
}

// partKind tells the pieces of a content apart.
type partKind uint8

const (
	otherPart partKind = iota
	textPart
	resultPart // a tool_result block
	callPart   // a tool_use block
)

// part is one piece of a content.
type part struct {
	at   span // the whole value
	kind partKind
	text span   // textPart: the string literal
	typ  string // text, input_text or output_text where the type says so
	// whole: the content is this string, not an array that holds it
	whole bool
}

// contentParts splits the content at v, a string or an array of parts.
func contentParts(b []byte, v span) []part {
	switch kindAt(b, v) {
	case '"':
		return []part{{at: v, kind: textPart, text: v, whole: true}}
	case '[':
		parts := make([]part, 0, 4)
		for e := range elements(b, v.start) {
			parts = append(parts, partAt(b, e))
		}
		return parts
	}
	return nil
}

func partAt(b []byte, e span) part {
	p := part{at: e}
	if kindAt(b, e) != '{' {
		return p
	}
	var txt, kind span
	for k, v := range members(b, e.start) {
		switch string(k) {
		case "text":
			txt = v
		case "type":
			kind = v
		}
	}
	switch string(chars(b, kind)) {
	case "tool_result":
		p.kind = resultPart
	case "tool_use":
		p.kind = callPart
	case "text":
		p.typ = "text"
	case "input_text":
		p.typ = "input_text"
	case "output_text":
		p.typ = "output_text"
	}
	if p.typ != "" && kindAt(b, txt) == '"' {
		p.kind, p.text = textPart, txt
	}
	return p
}

// joinText joins the text parts as they were sent.
func joinText(b []byte, parts []part) string {
	var one string
	var many []string
	for _, p := range parts {
		if p.kind != textPart {
			continue
		}
		t := text(b, p.text)
		if many == nil && one == "" {
			one = t
			continue
		}
		if many == nil {
			many = append(many, one)
		}
		many = append(many, t)
	}
	if many == nil {
		return one
	}
	return strings.Join(many, "\n")
}

// userText fills what a user item's parts say.
func (it *Item) userText(b []byte, parts []part) {
	it.Text = joinText(b, parts)
	var words []string
	for _, p := range parts {
		if p.kind != textPart {
			continue
		}
		if w := ownWords(text(b, p.text)); w != "" {
			words = append(words, w)
		}
	}
	it.Words = strings.Join(words, "\n")
	_, it.HasText = wordsPart(b, parts, false)
}

// wordsPart finds the part that a block goes before: the last text part that has words of the user, or, where none has
// or last is set, the last text part. Tool results stay in front: the Messages API wants them first.
func wordsPart(b []byte, parts []part, last bool) (part, bool) {
	var found part
	ok := false
	for i := len(parts) - 1; i >= 0 && parts[i].kind != resultPart; i-- {
		if parts[i].kind != textPart {
			continue
		}
		if !ok {
			found, ok = parts[i], true
		}
		if last || ownWords(text(b, parts[i].text)) != "" {
			return parts[i], true
		}
	}
	return found, ok
}
