package wire

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// replyItems holds the items of a reply in the order of their start.
type replyItems struct {
	list    []*replyItem
	at      map[int]*replyItem // newest item per index
	current *replyItem         // last used item
}

// replyItem is a piece of a reply under construction: a call, a block of the content, an output item.
type replyItem struct {
	index    int
	isCall   bool
	done     bool // the item is complete
	id, name string
	itemID   string
	full     [][]byte // full pieces of the text or of the call's arguments
	taken    int      // capacity of the pieces in full, in bytes
	text     []byte   // growing piece
	nesting  nesting  // nesting of text, up to the last call of isWholeValue
}

// A text doubles its capacity up to textPiece, because a copy per event would be expensive. A longer
// text grows in pieces, because doubling would copy often and leave half of the memory empty.
const (
	textRoom  = 1 << 10  // bytes of the first allocation
	textPiece = 16 << 10 // bytes of a piece
)

// room makes room for n more bytes.
func (s *replyItem) room(n int) {
	switch {
	case cap(s.text)-len(s.text) >= n:
	case cap(s.text) < textPiece:
		s.text = slices.Grow(s.text, max(n, textRoom, cap(s.text)))
	default:
		s.full, s.taken = append(s.full, s.text), s.taken+cap(s.text)
		if n < textPiece/2 {
			n = textPiece
		}
		s.text = make([]byte, 0, n)
	}
}

// joined returns the whole text and releases the pieces.
func (s *replyItem) joined() string {
	var b strings.Builder
	b.Grow(s.len())
	for _, piece := range s.full {
		b.Write(piece)
	}
	b.Write(s.text)
	s.drop() // otherwise text and pieces of many ending streams would take twice the memory that the limit permits
	return b.String()
}

// drop releases the text.
func (s *replyItem) drop() { s.full, s.taken, s.text = nil, 0, nil }

// len returns the length of the text.
func (s *replyItem) len() int {
	n := len(s.text)
	for _, piece := range s.full {
		n += len(piece)
	}
	return n
}

// itemAt returns the item of an index, or newItem for an unknown index.
func (r *ReplyReader) itemAt(index int) *replyItem {
	if s := r.items.at[index]; s != nil {
		return s
	}
	return r.newItem(index)
}

// itemCost is the cost of an item towards the limit without its text.
const itemCost = 128

// newItem adds an item. At the limit, newItem returns an item that is no part of the reply.
func (r *ReplyReader) newItem(index int) *replyItem {
	if r.kept+itemCost > r.limit {
		r.rep.Cut = true
		return &replyItem{index: index} // stray item: its text is not part of the reply
	}
	r.kept += itemCost
	s := &replyItem{index: index}
	if r.items.at == nil {
		r.items.at = make(map[int]*replyItem)
	}
	r.items.list, r.items.at[index] = append(r.items.list, s), s
	return s
}

// add appends the string at v to an item, up to the limit.
func (r *ReplyReader) add(s *replyItem, b []byte, v span) {
	if kindAt(b, v) != '"' {
		return
	}
	r.template.adds++
	r.template.item, r.template.at = s, v
	r.append(s, v.inner().of(b))
}

// append adds the inside of a JSON string to the text of an item.
func (r *ReplyReader) append(s *replyItem, raw []byte) {
	s.room(min(len(raw), r.limit-r.kept))
	before := len(s.text)
	s.text = r.cutOff(appendPlain(s.text, raw), before)
}

// set replaces the text of an item.
func (r *ReplyReader) set(s *replyItem, t string) {
	r.template.adds += 2
	r.kept -= s.len()
	s.full, s.taken = nil, 0
	s.text = r.cutOff(append(s.text[:0], t...), 0)
}

// cutOff counts the new bytes of text and cuts text at the limit, between two characters.
func (r *ReplyReader) cutOff(text []byte, before int) []byte {
	if room := r.limit - r.kept; len(text)-before > room {
		r.rep.Cut = true
		n := before + max(room, 0)
		for n > before && n > before+max(room, 0)-utf8.UTFMax && !utf8.RuneStart(text[n]) {
			n--
		}
		text = text[:n]
	}
	r.kept += len(text) - before
	return text
}
