package inject

import (
	"slices"

	"precept/internal/session"
	"precept/internal/wire"
)

// reinsertBlocks inserts the blocks from earlier turns, each at its anchor.
func (w *work) reinsertBlocks() {
	for i := range w.rec.Lessons.Blocks {
		b := &w.rec.Lessons.Blocks[i]
		if !w.needsInsertion(b) {
			continue
		}
		if w.plan.Kind == session.Repeat && w.input.Request.Delta && !b.Anchor.IsInstructions() {
			b.Turn = w.rec.Thread.Turns // the repeated request counts as a new turn, which now contains the block
		}
		item, block, ok := w.findBlock(b)
		if !ok {
			item, block, ok = w.findRewritten(b)
		}
		if !ok {
			w.setAnchorRemoved(b, true)
			continue
		}
		w.setAnchorRemoved(b, false)
		b.Anchor.Index = item
		w.insert(item, block, b)
	}
}

// Replay returns the plan for a side request that repeats a session's history. It inserts the session's blocks, so that
// the request begins with the text that the provider has cached. The request does not count as a turn. The caller holds
// the record's lock.
func (in *Injector) Replay(rec *session.Record, input Input) Plan {
	p := Plan{Kind: session.Repeat}
	w := work{injector: in, rec: rec, input: input, plan: &p}
	if p.SkipReason = w.passThroughReason(); p.SkipReason != "" {
		return p
	}
	w.cutSections()
	w.reinsertBlocks()
	w.setSkipReason()
	return p
}

// needsInsertion reports whether this request lacks the block. A delta request contains only new items, because the
// provider has the history with the blocks. It lacks a block only if the agent repeats a request into which the block
// was inserted. The provider does not keep instructions, so blocks in the instructions are needed in every request.
func (w *work) needsInsertion(b *session.Block) bool {
	if !w.input.Request.Delta || b.Anchor.IsInstructions() {
		return true
	}
	switch w.plan.Kind {
	case session.Retry:
		return b.KeptByProvider && b.Turn == w.rec.Thread.Turns
	case session.Repeat:
		return b.KeptByProvider && b.Turn == w.rec.Thread.Turns-1
	case session.NewTurn:
	}
	return false
}

// findBlock returns a block's position. If the anchor was missing in the previous turn, findBlock searches only the
// former index. Otherwise, a sub-agent with the main agent's session name would cause a full search in every turn.
func (w *work) findBlock(b *session.Block) (item, block int, ok bool) {
	if b.AnchorRemoved && b.Anchor.CallID == "" && b.Anchor.Role != wire.RoleSystem {
		i := b.Anchor.Index
		if i < 0 || i >= w.input.Request.Len() || w.input.Request.Role(i) != b.Anchor.Role || w.input.Request.Hash(i) != b.Anchor.Hash {
			return 0, 0, false
		}
	}
	return w.input.Request.Find(b.Anchor)
}

// findRewritten finds a block's position in a message that the agent has rewritten, such as a first message with
// retrieved text. If the other messages have kept their indices, the block stays at its index and gets a new anchor.
func (w *work) findRewritten(b *session.Block) (item, block int, ok bool) {
	i, req := b.Anchor.Index, w.input.Request
	if b.AnchorRemoved || b.Anchor.CallID != "" || b.Anchor.Role != wire.RoleUser || w.plan.Kind != session.NewTurn {
		return 0, 0, false
	}
	if i < 0 || i >= min(w.rec.Thread.ItemsBefore, req.Len()) || req.Role(i) != wire.RoleUser || req.Item(i).UserText == "" {
		return 0, 0, false
	}
	if w.historyMoved == nil {
		moved := !w.rec.KeepsIndices(req)
		w.historyMoved = &moved
	}
	at, ok := w.wordsSpotAt(i)
	if *w.historyMoved || !ok {
		return 0, 0, false
	}
	b.Anchor, w.rec.State.Dirty = at.anchor, true
	return i, -1, true
}

func (w *work) setAnchorRemoved(b *session.Block, removed bool) {
	if b.AnchorRemoved != removed {
		b.AnchorRemoved = removed
		w.rec.State.Dirty = true
	}
}

// maxReinserted limits the blocks that reinsertCompacted inserts in one session.
const maxReinserted = 16

// reinsertCompacted inserts blocks again if the agent has removed them by compacting the conversation, that is, by
// replacing old messages with a summary. The blocks go before the newest user message. If a lesson has been edited
// since, the block keeps the old text, because the new text is a different arm (treatment).
func (w *work) reinsertCompacted() {
	if w.input.Request.Delta {
		return
	}
	reinserted := 0
	for i := range w.rec.Lessons.Blocks {
		if w.rec.Lessons.Blocks[i].Supersedes {
			reinserted++
		}
	}
	isMissing := func(slug string) bool { return !w.insertedSlugs[slug] }
	for i := range w.rec.Lessons.Blocks {
		b := &w.rec.Lessons.Blocks[i]
		if !b.AnchorRemoved || b.Superseded || b.Loop || !slices.ContainsFunc(b.Slugs, isMissing) || reinserted >= maxReinserted {
			continue
		}
		at, ok := w.wordsSpot()
		if !ok {
			return
		}
		b.Superseded = true
		w.addBlock(at, session.Block{Text: b.Text, Slugs: b.Slugs, Supersedes: true})
		reinserted++
	}
}

func (w *work) wordsSpot() (spot, bool) {
	return w.newestMessageSpot(w.injector.cfg.Placement == InSystem)
}

// newestMessageSpot returns the spot before the newest user message or, with inSystem, at the end of the system prompt.
func (w *work) newestMessageSpot(inSystem bool) (spot, bool) {
	item := w.input.Request.LastUser()
	if item < 0 || !w.rec.IsNewItem(w.input.Request, item) {
		return spot{}, false
	}
	if inSystem {
		item = wire.System
	}
	return w.wordsSpotAt(item)
}

// wordsSpotAt returns the spot before the user's words or, for wire.System, at the end of the system prompt. The second
// result reports whether the anchor is stable.
func (w *work) wordsSpotAt(item int) (spot, bool) {
	anchor := w.input.Request.AnchorAt(item, "")
	return spot{item, -1, anchor}, w.isStableAnchor(item, -1, anchor)
}

// firstResultSpot returns the top of the first new tool result where a block can be inserted.
func (w *work) firstResultSpot(item int) (spot, bool) {
	for _, r := range w.input.Request.Item(item).Results {
		if at, ok := w.resultSpot(item, r.Block, r.CallID); ok {
			return at, true
		}
	}
	return spot{}, false
}

func (w *work) resultSpot(item, block int, callID string) (spot, bool) {
	if callID == "" || !w.rec.IsNewResult(w.input.Request, item, callID) {
		return spot{}, false
	}
	anchor := w.input.Request.AnchorAt(item, callID)
	return spot{item, block, anchor}, w.isStableAnchor(item, block, anchor)
}

// isStableAnchor reports whether later turns can find this position by the anchor.
func (w *work) isStableAnchor(item, block int, a wire.Anchor) bool {
	i, b, ok := w.input.Request.Find(a)
	return ok && i == item && b == block
}
