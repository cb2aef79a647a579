package wire

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

type replyItems struct {
	list    []*replyItem
	byIndex map[int]*replyItem // newest item by index
	current *replyItem         // last used
}

// replyItem is a call, a content block, or an output item in a reply that is still being read.
type replyItem struct {
	index        int
	isCall       bool
	isHosted     bool // call to a tool that the provider runs
	isComplete   bool
	hasJSONArgs  bool // the arguments are not a string (see addArgs)
	id, name     string
	itemID       string
	fullPieces   [][]byte // complete pieces of text or arguments
	fullCapacity int      // total capacity of fullPieces, in bytes
	text         []byte   // last piece, still growing
	nesting      nesting  // state of isWholeValue
	surrogate    []byte   // high surrogate's escape; the next piece may begin with the low surrogate
}

// Up to textPiece, a text's capacity doubles, because a copy per event would be expensive. A longer text grows in
// pieces, because doubling would leave up to half of the memory unused.
const (
	textRoom  = 1 << 10  // first allocation in bytes
	textPiece = 16 << 10 // in bytes
)

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

func (r *replyItem) takeText() string {
	var b strings.Builder
	b.Grow(r.len())
	for _, piece := range r.fullPieces {
		b.Write(piece)
	}
	b.Write(r.text)
	r.drop() // otherwise, streams that end at the same time would take twice the permitted memory
	return b.String()
}

func (r *replyItem) drop() { r.fullPieces, r.fullCapacity, r.text, r.surrogate = nil, 0, nil, nil }

func (r *replyItem) len() int {
	n := len(r.text)
	for _, piece := range r.fullPieces {
		n += len(piece)
	}
	return n
}

func (r *ReplyReader) itemAt(index int) *replyItem {
	if s := r.items.byIndex[index]; s != nil {
		return s
	}
	return r.newItem(index)
}

const itemCost = 128 // bytes that an item without text adds to keptBytes

const maxItemsAtLimit = 32

// newItem adds an item. At the limit, an item keeps ids but no text, because call ids alone can identify the next
// request. After maxItemsAtLimit items, a new item is not part of the reply.
func (r *ReplyReader) newItem(index int) *replyItem {
	s := &replyItem{index: index}
	if r.keptBytes+itemCost <= r.limit {
		r.keptBytes += itemCost
	} else if r.reply.Cut = true; len(r.items.list) >= maxItemsAtLimit {
		return s
	}
	if r.items.byIndex == nil {
		r.items.byIndex = make(map[int]*replyItem)
	}
	r.items.list, r.items.byIndex[index] = append(r.items.list, s), s
	return s
}

func (r *ReplyReader) addText(s *replyItem, b []byte, v span) {
	if firstByteAt(b, v) != '"' {
		return
	}
	r.template.changes++
	r.template.item, r.template.textSpan = s, v
	r.append(s, v.inner().of(b))
}

// addArgs adds a string piece, or the whole object or array. String pieces after an object replace the object, because
// some servers begin a call with an empty object.
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

// append adds the inside of a JSON string to an item. A high surrogate at the end waits for the next piece, because
// some servers split a character.
func (r *ReplyReader) append(s *replyItem, raw []byte) {
	if r.keptBytes >= r.limit {
		r.reply.Cut = r.reply.Cut || len(raw) > 0
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

func (r *ReplyReader) unescape(s *replyItem, raw []byte) {
	s.grow(min(len(raw), r.limit-r.keptBytes))
	before := len(s.text)
	s.text = r.cutOff(appendUnescaped(s.text, raw), before)
}

const surrogateLen = 6

func endsInHighSurrogate(raw []byte) bool {
	n := len(raw) - surrogateLen
	if n < 0 || raw[n] != '\\' || raw[n+1] != 'u' {
		return false
	}
	backslashes := n + 1 - len(bytes.TrimRight(raw[:n+1], `\`))
	c := hex4(raw[n+2:])
	return backslashes%2 == 1 && c >= 0xd800 && c < 0xdc00
}

func (r *ReplyReader) setText(s *replyItem, t string) {
	r.template.changes += 2
	r.keptBytes -= s.len()
	s.fullPieces, s.fullCapacity, s.nesting, s.surrogate = nil, 0, nesting{}, nil
	s.text = r.cutOff(append(s.text[:0], t...), 0)
}

func (r *ReplyReader) cutOff(text []byte, before int) []byte {
	if room := r.limit - r.keptBytes; len(text)-before > room {
		r.reply.Cut = true
		n := before + max(room, 0)
		for n > before && n > before+max(room, 0)-utf8.UTFMax && !utf8.RuneStart(text[n]) {
			n--
		}
		text = text[:n]
	}
	r.keptBytes += len(text) - before
	return text
}
