package inject

import (
	"precept/inject/writ"
	"precept/internal/session"
)

// insertAnswers inserts the results of the agent's /lesson commands. Control sessions get no lessons, but they do get
// these answers. If the request has no place for an answer, the answer waits for a later turn.
func (w *work) insertAnswers() {
	advertise := w.injector.cfg.AdvertiseCommands && w.input.ReadsCommands && !w.rec.Mailbox.Offered
	if len(w.rec.Mailbox.Answers) == 0 && !advertise {
		return
	}
	at, ok := w.answerSpot()
	if !ok {
		return
	}
	text := w.answerText()
	if advertise {
		text = writ.Advertisement + text
	}
	w.rec.Mailbox.Answers, w.rec.Mailbox.Offered, w.rec.State.Dirty = nil, w.rec.Mailbox.Offered || advertise, true
	w.plan.Answered = true
	if text != "" {
		w.addBlock(at, session.Block{Text: text})
	}
}

// maxAnswerBytes limits a session's answers, because each answer stays in all later requests.
const maxAnswerBytes = 128 << 10

// answerText returns the pending answers, or a short notice if the session has no room for them.
func (w *work) answerText() string {
	if len(w.rec.Mailbox.Answers) == 0 {
		return ""
	}
	used := 0
	for i := range w.rec.Lessons.Blocks {
		if b := &w.rec.Lessons.Blocks[i]; len(b.Slugs) == 0 && !b.Loop {
			used += len(b.Text)
		}
	}
	text := writ.Join(w.rec.Mailbox.Answers)
	switch {
	case used+len(text) <= maxAnswerBytes:
		return text
	case used+len(writ.NoRoom) <= maxAnswerBytes:
		return writ.NoRoom
	}
	return ""
}

// answerSpot returns the spot before the newest user message. Without such a spot, it returns the top of the first new
// tool result in which a block can be inserted.
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
