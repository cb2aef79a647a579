package inject

import (
	"precept/inject/writ"
	"precept/internal/session"
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
	w.put(at, session.Block{Text: text})
}

// top is the place of an answer.
func (w *work) top() (spot, bool) {
	if at, ok := w.newest(false); ok {
		return at, true
	}
	for i := w.Request.New(); i < w.Request.Len(); i++ {
		if at, ok := w.firstResult(i); ok {
			return at, true
		}
	}
	return spot{}, false
}
