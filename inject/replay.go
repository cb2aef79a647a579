package inject

import (
	"slices"

	"precept/internal/session"
	"precept/internal/wire"
)

// replay inserts again what was inserted before.
func (w *work) replay() {
	for i := range w.rec.Lessons.Blocks {
		b := &w.rec.Lessons.Blocks[i]
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
		return b.Turn == w.rec.Thread.Turns
	case session.Repeat: // the turn before had the same list; the block now belongs to this one
		if b.Turn != w.rec.Thread.Turns-1 {
			return false
		}
		b.Turn = w.rec.Thread.Turns
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
	if i < 0 || i >= min(w.rec.Thread.ItemsBefore, req.Len()) || req.Role(i) != wire.RoleUser || req.Item(i).Words == "" {
		return 0, 0, false
	}
	if w.moved == nil {
		moved := !w.rec.InPlace(req)
		w.moved = &moved
	}
	at, ok := w.wordsOf(i)
	if *w.moved || !ok {
		return 0, 0, false
	}
	b.Anchor, w.rec.State.Dirty = at.anchor, true
	return i, -1, true
}

func (w *work) setGone(b *session.Block, gone bool) {
	if b.Gone != gone {
		b.Gone = gone
		w.rec.State.Dirty = true
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
	again := 0
	for i := range w.rec.Lessons.Blocks {
		if w.rec.Lessons.Blocks[i].Again {
			again++
		}
	}
	gone := func(slug string) bool { return !w.live[slug] }
	for i := range w.rec.Lessons.Blocks {
		b := &w.rec.Lessons.Blocks[i]
		if !b.Gone || b.Moved || b.Loop || !slices.ContainsFunc(b.Slugs, gone) || again >= maxReapplied {
			continue
		}
		at, ok := w.words()
		if !ok {
			return
		}
		b.Moved = true
		w.put(at, session.Block{Text: b.Text, Slugs: b.Slugs, Again: true})
		again++
	}
}

// words is where lessons go that the user's words triggered.
func (w *work) words() (spot, bool) { return w.newest(w.in.cfg.Placement == InSystem) }

// newest is the newest message of the user, when it is new and a block can stand in it; or the end
// of the system prompt in its place.
func (w *work) newest(inSystem bool) (spot, bool) {
	item := w.Request.LastUser()
	if item < 0 || !w.rec.Fresh(w.Request, item) {
		return spot{}, false
	}
	if inSystem {
		item = wire.System
	}
	return w.wordsOf(item)
}

// wordsOf is the place before the words of an item, or at the end of the system prompt.
func (w *work) wordsOf(item int) (spot, bool) {
	anchor := w.Request.AnchorAt(item, "")
	return spot{item, -1, anchor}, w.holds(item, -1, anchor)
}

// firstResult is the place at the top of an item's first result that is new and takes a text.
func (w *work) firstResult(item int) (spot, bool) {
	for _, r := range w.Request.Item(item).Results {
		if at, ok := w.result(item, r.Block, r.CallID); ok {
			return at, true
		}
	}
	return spot{}, false
}

// result is the place at the top of a new tool result.
func (w *work) result(item, block int, callID string) (spot, bool) {
	if callID == "" || !w.rec.FreshResult(w.Request, item, callID) {
		return spot{}, false
	}
	anchor := w.Request.AnchorAt(item, callID)
	return spot{item, block, anchor}, w.holds(item, block, anchor)
}

// holds makes sure that the anchor leads back to the place: it must do so in every turn to come.
func (w *work) holds(item, block int, a wire.Anchor) bool {
	i, b, ok := w.Request.Find(a)
	return ok && i == item && b == block
}
