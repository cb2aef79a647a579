package wire

import (
	"bytes"
	"slices"
)

// mold is the form of an event that did nothing but add a piece of text. Streams consist of such events, hundreds of
// them equal but for the piece: one that fits the mold of the last one is proved and read by comparing.
type mold struct {
	name, before, behind []byte
	slot                 *slot
	at                   span // of the piece, with its quotes
	adds                 int  // of the event that was read last
	set                  bool
}

// textRoom is where the text of a stream begins to grow: doubling from a few bytes would copy it with nearly every event.
const textRoom = 1 << 10

// take makes the mold of the event that was just read, when it is of that kind.
func (m *mold) take(name, data []byte) {
	m.set = m.adds == 1 && !m.slot.isCall
	if !m.set {
		return
	}
	m.name = append(m.name[:0], name...)
	m.before = append(m.before[:0], data[:m.at.start+1]...)
	m.behind = append(m.behind[:0], data[m.at.end-1:]...)
}

// cast reads an event that fits the mold. What stands around the piece is what it was before, so its effect is there.
func (r *ReplyReader) cast(name, data []byte) bool {
	m := &r.mold
	if !m.set || !bytes.HasPrefix(data, m.before) || !bytes.Equal(name, m.name) {
		return false
	}
	end := stringEnd(data, len(m.before))
	if end < 0 || !bytes.Equal(data[end-1:], m.behind) {
		return false
	}
	before := len(m.slot.text)
	if cap(m.slot.text) < textRoom {
		m.slot.text = slices.Grow(m.slot.text, textRoom)
	}
	m.slot.text = r.cutOff(appendPlain(m.slot.text, data[len(m.before):end-1]), before)
	return true
}
