package inject

import (
	"precept/session"
	"precept/wire"
)

// replay inserts again what was inserted before.
func (w *work) replay() {
	for i := range w.rec.Blocks {
		b := &w.rec.Blocks[i]
		if !w.due(b) {
			continue
		}
		item, block, ok := w.find(b)
		if !ok {
			item, block, ok = w.rewritten(b)
		}
		if !ok {
			w.setGone(b, true)
			continue
		}
		w.setGone(b, false)
		b.Anchor.Index = item
		w.insert(item, block, b)
	}
}

// Replay inserts what stands in a session into a request that is beside it and shows its history:
// its cached beginning is the same then. Nothing is drawn, and the request is no turn. The caller
// has locked the record.
func (in *Injector) Replay(rec *session.Record, t Turn) Plan {
	p := Plan{Kind: session.Repeat}
	w := work{in: in, rec: rec, Turn: t, plan: &p}
	if p.Skip = w.idle(); p.Skip != "" {
		return p
	}
	w.replay()
	w.finish()
	return p
}

// due says whether the block belongs into this request. Where the provider keeps the history it has
// the block, except when the request that brought it is sent again. A full list brings back
// everything, wherever it was inserted.
func (w *work) due(b *session.Block) bool {
	if !w.Request.Delta {
		return true
	}
	if w.plan.Kind == session.NewTurn || !b.Once {
		return false
	}
	switch w.plan.Kind {
	case session.Retry:
		return b.Turn == w.rec.Turns
	case session.Repeat: // the turn before had the same list; the block now belongs to this one
		if b.Turn != w.rec.Turns-1 {
			return false
		}
		b.Turn = w.rec.Turns
		return true
	case session.NewTurn:
	}
	return false
}

// find looks for the block's place. One that was gone is looked for only where it stood: a
// sub-agent that speaks under the same name has another list, and each turn of it would else be
// searched to the end.
func (w *work) find(b *session.Block) (item, block int, ok bool) {
	if b.Gone && b.Anchor.CallID == "" && b.Anchor.Role != wire.RoleSystem {
		i := b.Anchor.Index
		if i < 0 || i >= w.Request.Len() || w.Request.Role(i) != b.Anchor.Role || w.Request.Hash(i) != b.Anchor.Hash {
			return 0, 0, false
		}
	}
	return w.Request.Find(b.Anchor)
}

// rewritten finds the place of a block before words that the agent writes anew in every turn, as
// one does that puts what it has retrieved into its first message: everything else stands where it
// stood, and so does the block.
func (w *work) rewritten(b *session.Block) (item, block int, ok bool) {
	i, req := b.Anchor.Index, w.Request
	if b.Gone || b.Anchor.CallID != "" || b.Anchor.Role != wire.RoleUser || w.plan.Kind != session.NewTurn {
		return 0, 0, false
	}
	if i < 0 || i >= min(w.rec.ItemsBefore, req.Len()) || req.Role(i) != wire.RoleUser || req.Item(i).Words == "" {
		return 0, 0, false
	}
	if w.moved == nil {
		moved := !w.rec.InPlace(req)
		w.moved = &moved
	}
	anchor := req.AnchorAt(i, "")
	if *w.moved || !w.holds(i, -1, anchor) {
		return 0, 0, false
	}
	b.Anchor, w.rec.Dirty = anchor, true
	return i, -1, true
}

func (w *work) setGone(b *session.Block, gone bool) {
	if b.Gone != gone {
		b.Gone = gone
		w.rec.Dirty = true
	}
}

// maxReapplied bounds how often lessons are inserted anew in one session.
const maxReapplied = 16

// reapply inserts the lessons anew that a compaction took away, at the newest user message, in the
// bytes that the session was given: a lesson that was edited meanwhile is another lesson.
func (w *work) reapply() {
	if w.Request.Delta {
		return
	}
	item, anchor, ok := -1, wire.Anchor{}, false
	for i := range w.rec.Blocks {
		b := &w.rec.Blocks[i]
		if !b.Gone || b.Moved || b.Loop || w.lives(b.Slugs) || w.reapplied() >= maxReapplied {
			continue
		}
		if item < 0 {
			if item, anchor, ok = w.words(); !ok {
				return
			}
		}
		b.Moved = true
		w.put(item, -1, session.Block{Anchor: anchor, Text: b.Text, Slugs: b.Slugs, Again: true})
	}
}

func (w *work) reapplied() int {
	n := 0
	for i := range w.rec.Blocks {
		if w.rec.Blocks[i].Again {
			n++
		}
	}
	return n
}

func (w *work) lives(slugs []string) bool {
	for _, s := range slugs {
		if !w.live[s] {
			return false
		}
	}
	return true
}

// words is the newest message of the user, when it is new and a block can stand in it.
func (w *work) words() (item int, anchor wire.Anchor, ok bool) {
	item = w.Request.LastUser()
	if item < 0 || !w.rec.Fresh(w.Request, item) {
		return 0, wire.Anchor{}, false
	}
	if w.in.cfg.Placement == InSystem {
		item = wire.System
	}
	anchor = w.Request.AnchorAt(item, "")
	return item, anchor, w.holds(item, -1, anchor)
}

// result is the place at the top of a new tool result.
func (w *work) result(item, block int, callID string) (wire.Anchor, bool) {
	if callID == "" || !w.rec.FreshResult(w.Request, item, callID) {
		return wire.Anchor{}, false
	}
	anchor := w.Request.AnchorAt(item, callID)
	return anchor, w.holds(item, block, anchor)
}

// holds makes sure that the anchor leads back to the place: it must do so in every turn to come.
func (w *work) holds(item, block int, a wire.Anchor) bool {
	i, b, ok := w.Request.Find(a)
	return ok && i == item && b == block
}
