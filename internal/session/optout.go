package session

import "slices"

// maxHidden bounds the hidden turns of a record. The oldest turn is dropped first: its traces are
// gone by then.
const maxHidden = 4096

// Await marks a turn that the recorder has not judged yet. Until Judged, a row contains nothing of
// the turn. Lock the record.
func (r *Record) Await(turn int) {
	if turn > 0 && !slices.Contains(r.OptOut.Unjudged, turn) {
		r.OptOut.Unjudged = bounded(append(r.OptOut.Unjudged, turn))
	}
}

// Judged stores whether the turn opted out. Nothing that follows from the text of an opted-out turn
// may be kept, even if a later turn repeats the text. A turn that opted out stays opted out,
// whatever its retry says. Lock the record.
func (r *Record) Judged(turn int, optedOut bool) {
	r.OptOut.Unjudged = slices.DeleteFunc(r.OptOut.Unjudged, func(t int) bool { return t == turn })
	if optedOut && turn > 0 && !slices.Contains(r.OptOut.Turns, turn) {
		r.OptOut.Turns = bounded(append(r.OptOut.Turns, turn))
	}
}

// Hidden reports whether the turn opted out or is not judged yet. Lock the record.
func (r *Record) Hidden(turn int) bool {
	return slices.Contains(r.OptOut.Turns, turn) || slices.Contains(r.OptOut.Unjudged, turn)
}

// Silent reports whether the session has turns and all of them opted out. Nothing of a silent
// session may be kept. Lock the record.
func (r *Record) Silent() bool { return r.Thread.Turns > 0 && len(r.OptOut.Turns) >= r.Thread.Turns }

// Visible reports whether the session has a turn that is not hidden, or no turn yet. Lock the
// record.
func (r *Record) Visible() bool {
	for turn := 1; turn <= r.Thread.Turns; turn++ {
		if !r.Hidden(turn) {
			return true
		}
	}
	return r.Thread.Turns == 0
}

func bounded(turns []int) []int { return turns[max(0, len(turns)-maxHidden):] }

// OptOutMark is all that is kept of a silent session: the number of turns, and the length of the
// list. The mark tells other replicas that the session opted out.
type OptOutMark struct{ Turns, Items int }

// OptOutMark returns the mark of the session. ok is false while something of the session may be
// kept. Lock the record.
func (r *Record) OptOutMark() (m OptOutMark, ok bool) {
	return OptOutMark{r.Thread.Turns, r.Thread.Items}, r.Silent()
}

// Hide marks as many turns as opted out as the mark says. A mark of a shorter list is outdated and
// has no effect. Lock the record.
func (r *Record) Hide(m OptOutMark) {
	if m.Items < r.Thread.Items {
		return
	}
	r.Thread.Turns, r.Thread.Items = max(r.Thread.Turns, m.Turns), m.Items
	for turn := 1; turn <= r.Thread.Turns; turn++ {
		r.Judged(turn, true)
	}
}
