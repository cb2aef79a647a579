package inject

import (
	"slices"

	"precept/internal/session"
	"precept/internal/wire"
)

// replay inserts the earlier blocks again.
func (w *work) replay() {
	for i := range w.rec.Lessons.Blocks {
		b := &w.rec.Lessons.Blocks[i]
		if !w.isDue(b) {
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

// Replay inserts the blocks of a session into a side request that repeats the history, so that the
// cached prefix is identical. No coin is flipped, and the request is not a turn. The caller holds
// the lock of the record.
func (in *Injector) Replay(rec *session.Record, t Input) Plan {
	p := Plan{Kind: session.Repeat}
	w := work{in: in, rec: rec, input: t, plan: &p}
	if p.Skip = w.idleReason(); p.Skip != "" {
		return p
	}
	w.sections()
	w.replay()
	w.finish()
	return p
}

// isDue reports whether the block belongs into this request. A provider that keeps the history has
// the block, unless the request that brought the block is repeated. A full list needs every block,
// wherever the block was inserted.
func (w *work) isDue(b *session.Block) bool {
	if !w.input.Request.Delta {
		return true
	}
	if w.plan.Kind == session.NewTurn || !b.KeptByProvider {
		return false
	}
	switch w.plan.Kind {
	case session.Retry:
		return b.Turn == w.rec.Thread.Turns
	case session.Repeat: // a repeated list: the block belongs to this turn now
		if b.Turn != w.rec.Thread.Turns-1 {
			return false
		}
		b.Turn = w.rec.Thread.Turns
		return true
	case session.NewTurn:
	}
	return false
}

// find returns the position of a block. A block whose anchor was gone is searched at its former
// position only: a sub-agent with the same session name has another list, and every turn of the
// sub-agent would search the whole list.
func (w *work) find(b *session.Block) (item, block int, ok bool) {
	if b.AnchorRemoved && b.Anchor.CallID == "" && b.Anchor.Role != wire.RoleSystem {
		i := b.Anchor.Index
		if i < 0 || i >= w.input.Request.Len() || w.input.Request.Role(i) != b.Anchor.Role || w.input.Request.Hash(i) != b.Anchor.Hash {
			return 0, 0, false
		}
	}
	return w.input.Request.Find(b.Anchor)
}

// rewritten returns the position of a block in a message that the agent rewrites in every turn, such as a
// first message with retrieved text. All other content keeps its position, so the block keeps its position
// too.
func (w *work) rewritten(b *session.Block) (item, block int, ok bool) {
	i, req := b.Anchor.Index, w.input.Request
	if b.AnchorRemoved || b.Anchor.CallID != "" || b.Anchor.Role != wire.RoleUser || w.plan.Kind != session.NewTurn {
		return 0, 0, false
	}
	if i < 0 || i >= min(w.rec.Thread.ItemsBefore, req.Len()) || req.Role(i) != wire.RoleUser || req.Item(i).Words == "" {
		return 0, 0, false
	}
	if w.moved == nil {
		moved := !w.rec.InPlace(req)
		w.moved = &moved
	}
	at, ok := w.wordsSpotOf(i)
	if *w.moved || !ok {
		return 0, 0, false
	}
	b.Anchor, w.rec.State.Dirty = at.anchor, true
	return i, -1, true
}

func (w *work) setGone(b *session.Block, gone bool) {
	if b.AnchorRemoved != gone {
		b.AnchorRemoved = gone
		w.rec.State.Dirty = true
	}
}

// maxReapplied limits how often lessons are inserted again in one session.
const maxReapplied = 16

// reapply repeats the lessons that a compaction removed, before the newest user message and with the
// original bytes: an edited lesson is another lesson.
func (w *work) reapply() {
	if w.input.Request.Delta {
		return
	}
	again := 0
	for i := range w.rec.Lessons.Blocks {
		if w.rec.Lessons.Blocks[i].Supersedes {
			again++
		}
	}
	isMissing := func(slug string) bool { return !w.live[slug] }
	for i := range w.rec.Lessons.Blocks {
		b := &w.rec.Lessons.Blocks[i]
		if !b.AnchorRemoved || b.Superseded || b.Loop || !slices.ContainsFunc(b.Slugs, isMissing) || again >= maxReapplied {
			continue
		}
		at, ok := w.wordsSpot()
		if !ok {
			return
		}
		b.Superseded = true
		w.addBlock(at, session.Block{Text: b.Text, Slugs: b.Slugs, Supersedes: true})
		again++
	}
}

// wordsSpot returns the place for lessons that the user's words triggered.
func (w *work) wordsSpot() (spot, bool) { return w.newestMessageSpot(w.in.cfg.Placement == InSystem) }

// newestMessageSpot returns the newest user message if the message is new and can hold a block; with
// inSystem, the end of the system prompt.
func (w *work) newestMessageSpot(inSystem bool) (spot, bool) {
	item := w.input.Request.LastUser()
	if item < 0 || !w.rec.IsNewItem(w.input.Request, item) {
		return spot{}, false
	}
	if inSystem {
		item = wire.System
	}
	return w.wordsSpotOf(item)
}

// wordsSpotOf returns the position before the words of an item, or at the end of the system prompt.
func (w *work) wordsSpotOf(item int) (spot, bool) {
	anchor := w.input.Request.AnchorAt(item, "")
	return spot{item, -1, anchor}, w.isStableAnchor(item, -1, anchor)
}

// firstResultSpot returns the top of an item's first new result that can hold a text.
func (w *work) firstResultSpot(item int) (spot, bool) {
	for _, r := range w.input.Request.Item(item).Results {
		if at, ok := w.resultSpot(item, r.Block, r.CallID); ok {
			return at, true
		}
	}
	return spot{}, false
}

// resultSpot returns the position at the top of a new tool result.
func (w *work) resultSpot(item, block int, callID string) (spot, bool) {
	if callID == "" || !w.rec.IsNewResult(w.input.Request, item, callID) {
		return spot{}, false
	}
	anchor := w.input.Request.AnchorAt(item, callID)
	return spot{item, block, anchor}, w.isStableAnchor(item, block, anchor)
}

// isStableAnchor reports whether the anchor leads back to the place, as every later turn requires.
func (w *work) isStableAnchor(item, block int, a wire.Anchor) bool {
	i, b, ok := w.input.Request.Find(a)
	return ok && i == item && b == block
}
