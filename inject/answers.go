package inject

import (
	"precept/session"
	"precept/writ"
)

// answers inserts what became of the agent's /lesson commands, at the top of what is new: the
// user's message, else the first tool result. It is no lesson and has no coin: sessions of both
// arms get it alike. Where nothing new can hold it, it waits.
func (w *work) answers() {
	advertise := w.in.cfg.Writ && !w.rec.WritOffered
	if len(w.rec.Answers) == 0 && !advertise {
		return
	}
	at, ok := w.top()
	if !ok {
		return
	}
	text := ""
	if len(w.rec.Answers) > 0 {
		text = writ.Join(w.rec.Answers)
	}
	if advertise {
		text = writ.Advertisement + text
	}
	w.rec.Answers, w.rec.WritOffered, w.rec.Dirty = nil, w.rec.WritOffered || advertise, true
	w.plan.Answered = true
	w.put(at.item, at.block, session.Block{Anchor: at.anchor, Text: text})
}

// top is the place of an answer.
func (w *work) top() (spot, bool) {
	if item := w.Request.LastUser(); item >= 0 && w.rec.Fresh(w.Request, item) {
		if anchor := w.Request.AnchorAt(item, ""); w.holds(item, -1, anchor) {
			return spot{item, -1, anchor}, true
		}
	}
	for i := max(w.Request.New(), 0); i < w.Request.Len(); i++ {
		for _, r := range w.Request.Item(i).Results {
			if r.Closed {
				continue
			}
			if anchor, ok := w.result(i, r.Block, r.CallID); ok {
				return spot{i, r.Block, anchor}, true
			}
		}
	}
	return spot{}, false
}
