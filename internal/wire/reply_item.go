package wire

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// replyItems holds the items of a reply in the order of their start.
type replyItems struct {
	list    []*replyItem
	byIndex map[int]*replyItem // newest item by index
	current *replyItem         // last used item
}

// replyItem is a call, a block of the content, or an output item of a reply that is still being read.
type replyItem struct {
	index        int
	isCall       bool
	isHosted     bool // a call of a tool that the provider runs
	isComplete   bool // the item is complete
	hasJSONArgs  bool // the text is the JSON of arguments that are not a string (see addArgs)
	id, name     string
	itemID       string
	fullPieces   [][]byte // full pieces of the text or of the call's arguments
	fullCapacity int      // capacity of fullPieces, in bytes
	text         []byte   // the last piece, which still grows
	nesting      nesting  // nesting of the text, up to the last call of isWholeValue
	surrogate    []byte   // escape of a high surrogate at the end of the last piece, whose pair may begin the next piece
}

// A text doubles its capacity up to textPiece, because a copy per event would be expensive. A longer text grows in
// pieces, because further doubling would leave half of the memory empty.
const (
	textRoom  = 1 << 10  // size of the first allocation in bytes
	textPiece = 16 << 10 // size of a piece in bytes
)

// grow makes room for n more bytes.
func (r *replyItem) grow(n int) {
	switch {
	case cap(r.text)-len(r.text) >= n:
	case cap(r.text) < textPiece:
		r.text = slices.Grow(r.text, max(n, textRoom, cap(r.text)))
	default:
		r.fullPieces, r.fullCapacity = append(r.fullPieces, r.text), r.fullCapacity+cap(r.text)
		if n < textPiece/2 {
			n = textPiece
		}
		r.text = make([]byte, 0, n)
	}
}

// takeText returns the whole text and releases the pieces.
func (r *replyItem) takeText() string {
	var b strings.Builder
	b.Grow(r.len())
	for _, piece := range r.fullPieces {
		b.Write(piece)
	}
	b.Write(r.text)
	r.drop() // otherwise many ending streams would take twice the memory that the limit permits
	return b.String()
}

// drop releases the text.
func (r *replyItem) drop() { r.fullPieces, r.fullCapacity, r.text, r.surrogate = nil, 0, nil, nil }

// len returns the length of the text.
func (r *replyItem) len() int {
	n := len(r.text)
	for _, piece := range r.fullPieces {
		n += len(piece)
	}
	return n
}

// itemAt returns the item of an index, or newItem for an unknown index.
func (r *ReplyReader) itemAt(index int) *replyItem {
	if s := r.items.byIndex[index]; s != nil {
		return s
	}
	return r.newItem(index)
}

// itemCost is the number of bytes that an item without its text counts towards the limit.
const itemCost = 128

// maxItemsAtLimit is the maximum number of items of a reply that has reached the limit of its reader.
const maxItemsAtLimit = 32

// newItem adds an item. At the limit, the item gets no text, but its ids are kept, because the next request of an agent
// without a session name is recognised by the ids of its calls. If the reply has maxItemsAtLimit items, newItem returns
// an item that does not become a part of the reply.
func (r *ReplyReader) newItem(index int) *replyItem {
	s := &replyItem{index: index}
	if r.keptBytes+itemCost <= r.limit {
		r.keptBytes += itemCost
	} else if r.rep.Cut = true; len(r.items.list) >= maxItemsAtLimit {
		return s
	}
	if r.items.byIndex == nil {
		r.items.byIndex = make(map[int]*replyItem)
	}
	r.items.list, r.items.byIndex[index] = append(r.items.list, s), s
	return s
}

// addText appends the string at v to an item, up to the limit.
func (r *ReplyReader) addText(s *replyItem, b []byte, v span) {
	if firstByteAt(b, v) != '"' {
		return
	}
	r.template.changes++
	r.template.item, r.template.textSpan = s, v
	r.append(s, v.inner().of(b))
}

// addArgs adds the arguments at v to a call: a piece of a string, or the whole object or array. Pieces after an object
// replace the object, because some servers begin a call with an empty object.
func (r *ReplyReader) addArgs(s *replyItem, b []byte, v span) {
	switch {
	case isArgsValue(b, v):
		r.setText(s, argsText(b, v))
		s.hasJSONArgs = true
	case firstByteAt(b, v) == '"' && v.end-v.start > len(`""`) && s.hasJSONArgs:
		r.setText(s, "")
		s.hasJSONArgs = false
		r.addText(s, b, v)
	default:
		r.addText(s, b, v)
	}
}

// append adds the inside of a JSON string to the text of an item. A high surrogate at the end waits for the next piece,
// because some servers split a character into two pieces.
func (r *ReplyReader) append(s *replyItem, raw []byte) {
	if r.keptBytes >= r.limit {
		r.rep.Cut = r.rep.Cut || len(raw) > 0
		s.surrogate = nil
		return
	}
	if len(s.surrogate) > 0 {
		raw, s.surrogate = append(s.surrogate, raw...), nil
	}
	if n := len(raw) - surrogateLen; endsInHighSurrogate(raw) {
		raw, s.surrogate = raw[:n], bytes.Clone(raw[n:])
	}
	r.unescape(s, raw)
}

// unescape adds the inside of a JSON string to the text of an item, up to the limit.
func (r *ReplyReader) unescape(s *replyItem, raw []byte) {
	s.grow(min(len(raw), r.limit-r.keptBytes))
	before := len(s.text)
	s.text = r.cutOff(appendUnescaped(s.text, raw), before)
}

// surrogateLen is the length of an escape such as \ud83d in bytes.
const surrogateLen = 6

// endsInHighSurrogate reports whether the last escape of a string literal is a high surrogate at the end.
func endsInHighSurrogate(raw []byte) bool {
	n := len(raw) - surrogateLen
	if n < 0 || raw[n] != '\\' || raw[n+1] != 'u' {
		return false
	}
	backslashes := n + 1 - len(bytes.TrimRight(raw[:n+1], `\`))
	c := hex4(raw[n+2:])
	return backslashes%2 == 1 && c >= 0xd800 && c < 0xdc00
}

// setText replaces the text of an item.
func (r *ReplyReader) setText(s *replyItem, t string) {
	r.template.changes += 2
	r.keptBytes -= s.len()
	s.fullPieces, s.fullCapacity, s.nesting, s.surrogate = nil, 0, nesting{}, nil
	s.text = r.cutOff(append(s.text[:0], t...), 0)
}

// cutOff cuts text at the limit, between two characters, and adds the number of its new bytes to keptBytes. before is
// the previous length of text.
func (r *ReplyReader) cutOff(text []byte, before int) []byte {
	if room := r.limit - r.keptBytes; len(text)-before > room {
		r.rep.Cut = true
		n := before + max(room, 0)
		for n > before && n > before+max(room, 0)-utf8.UTFMax && !utf8.RuneStart(text[n]) {
			n--
		}
		text = text[:n]
	}
	r.keptBytes += len(text) - before
	return text
}
