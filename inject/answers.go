package inject

import (
	"precept/inject/writ"
	"precept/internal/session"
)

// answers inserts the results of the agent's /lesson commands at the top of the new content: the
// user's message, else the first tool result. An answer is not a lesson and has no coin: treated and
// control sessions get answers. Without a place for an answer, the answer waits.
func (w *work) answers() {
	advertise := w.in.cfg.Writ && !w.rec.Mailbox.Offered
	if len(w.rec.Mailbox.Answers) == 0 && !advertise {
		return
	}
	at, ok := w.answerSpot()
	if !ok {
		return
	}
	text := ""
	if len(w.rec.Mailbox.Answers) > 0 {
		text = writ.Join(w.rec.Mailbox.Answers)
	}
	if advertise {
		text = writ.Advertisement + text
	}
	w.rec.Mailbox.Answers, w.rec.Mailbox.Offered, w.rec.State.Dirty = nil, w.rec.Mailbox.Offered || advertise, true
	w.plan.Answered = true
	w.addBlock(at, session.Block{Text: text})
}

// answerSpot returns the position at which an answer to commands is inserted.
func (w *work) answerSpot() (spot, bool) {
	if at, ok := w.newestMessageSpot(false); ok {
		return at, true
	}
	for i := w.input.Request.New(); i < w.input.Request.Len(); i++ {
		if at, ok := w.firstResultSpot(i); ok {
			return at, true
		}
	}
	return spot{}, false
}
