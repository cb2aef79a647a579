package inject

import (
	"precept/inject/writ"
	"precept/internal/session"
)

// insertAnswers inserts the results of the agent's /lesson commands before the user's message or, without a new
// message, at the top of the first tool result. No coin is flipped for an answer, because an answer is not a lesson.
// Control sessions get answers, too. If there is no spot for an answer in this turn, the answer waits for a later
// turn.
func (w *work) insertAnswers() {
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

// answerSpot returns the spot at which an answer to /lesson commands is inserted.
func (w *work) answerSpot() (spot, bool) {
	if at, ok := w.newestMessageSpot(false); ok {
		return at, true
	}
	for i := w.input.Request.FirstNew(); i < w.input.Request.Len(); i++ {
		if at, ok := w.firstResultSpot(i); ok {
			return at, true
		}
	}
	return spot{}, false
}
