package session

import "slices"

// maxHidden bounds the turns that a record knows to be hidden; of more the oldest is let go, whose
// traces have gone by then.
const maxHidden = 4096

// Await says that it is not known yet whether anything of the turn may be kept: a row has nothing
// of it until then. Lock the record.
func (r *Record) Await(turn int) {
	if turn > 0 && !slices.Contains(r.OptOut.Unjudged, turn) {
		r.OptOut.Unjudged = bounded(append(r.OptOut.Unjudged, turn))
	}
}

// Judged says whether the turn opted out. Nothing that follows from what was said in one that did
// may be kept, also where a later turn repeats it. Once opted out, a turn stays so, whatever its
// retry says. Lock the record.
func (r *Record) Judged(turn int, optedOut bool) {
	r.OptOut.Unjudged = slices.DeleteFunc(r.OptOut.Unjudged, func(t int) bool { return t == turn })
	if optedOut && turn > 0 && !slices.Contains(r.OptOut.Turns, turn) {
		r.OptOut.Turns = bounded(append(r.OptOut.Turns, turn))
	}
}

// Hidden says whether nothing of the turn may be kept, or not yet. Lock the record.
func (r *Record) Hidden(turn int) bool {
	return slices.Contains(r.OptOut.Turns, turn) || slices.Contains(r.OptOut.Unjudged, turn)
}

// Silent says whether the session has turns, and every one of them opted out: nothing of it may be
// kept. Lock the record.
func (r *Record) Silent() bool { return r.Thread.Turns > 0 && len(r.OptOut.Turns) >= r.Thread.Turns }

// Visible says whether there is anything in the session that may be kept: a turn that is not
// hidden, or no turn yet. Lock the record.
func (r *Record) Visible() bool {
	for turn := 1; turn <= r.Thread.Turns; turn++ {
		if !r.Hidden(turn) {
			return true
		}
	}
	return r.Thread.Turns == 0
}

func bounded(turns []int) []int { return turns[max(0, len(turns)-maxHidden):] }

// OptOutMark is what stays of a session all of whose turns opted out: how many there were, and how
// long their list was.
type OptOutMark struct{ Turns, Items int }

// OptOutMark is the session's own; ok is false while something of it may be kept. Lock the record.
func (r *Record) OptOutMark() (m OptOutMark, ok bool) {
	return OptOutMark{r.Thread.Turns, r.Thread.Items}, r.Silent()
}

// Hide makes the record one in which as many turns opted out as the mark says. One that knows
// of more keeps them. Lock the record.
func (r *Record) Hide(m OptOutMark) {
	if m.Items < r.Thread.Items {
		return
	}
	r.Thread.Turns, r.Thread.Items = max(r.Thread.Turns, m.Turns), m.Items
	for turn := 1; turn <= r.Thread.Turns; turn++ {
		r.Judged(turn, true)
	}
}
