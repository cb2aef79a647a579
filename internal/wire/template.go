package wire

import "bytes"

// template is the form of an event that did nothing but add a piece of text. Streams consist of
// such events, hundreds of them equal but for the piece: one that fits the template of the last one
// is proved and read by comparing, which costs a tenth.
type template struct {
	name, before, behind []byte
	slot                 *slot
	at                   span // of the piece, with its quotes
	adds                 int  // of the event that was read last
	set                  bool
}

// learn makes the template of the event that was just read, when it is of that kind.
func (m *template) learn(name, data []byte) {
	m.set = m.adds == 1 && !m.slot.isCall
	if !m.set {
		return
	}
	m.name = append(m.name[:0], name...)
	m.before = append(m.before[:0], data[:m.at.start+1]...)
	m.behind = append(m.behind[:0], data[m.at.end-1:]...)
}

// readAlike reads an event that fits the template. What stands around the piece is what it was
// before, so its effect is there.
func (r *ReplyReader) readAlike(name, data []byte) bool {
	m := &r.template
	if !m.set || !bytes.HasPrefix(data, m.before) || !bytes.Equal(name, m.name) {
		return false
	}
	end := stringEnd(data, len(m.before))
	if end < 0 || !bytes.Equal(data[end-1:], m.behind) {
		return false
	}
	r.append(m.slot, data[len(m.before):end-1])
	return true
}
