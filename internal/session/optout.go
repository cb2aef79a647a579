package session

import "slices"

// maxHidden is the maximum number of hidden turns per record. The oldest is dropped first; by then the record has no
// data from this turn.
const maxHidden = 4096

// AddPendingTurn hides a turn's content from rows until the recorder has looked for an opt-out and calls SetOptedOut.
func (r *Record) AddPendingTurn(turn int) {
	if turn > 0 && !slices.Contains(r.OptOut.PendingTurns, turn) {
		r.OptOut.PendingTurns = newestTurns(append(r.OptOut.PendingTurns, turn))
	}
}

// SetOptedOut stores whether the turn opted out. Rows contain no data from an opted-out turn's text, even if a later
// turn repeats the text. An opt-out is final.
func (r *Record) SetOptedOut(turn int, optedOut bool) {
	r.OptOut.PendingTurns = slices.DeleteFunc(r.OptOut.PendingTurns, func(t int) bool { return t == turn })
	if optedOut && turn > 0 && !slices.Contains(r.OptOut.Turns, turn) {
		r.OptOut.Turns = newestTurns(append(r.OptOut.Turns, turn))
	}
}

// IsHidden reports whether the turn opted out, or may have opted out and is still pending.
func (r *Record) IsHidden(turn int) bool {
	return slices.Contains(r.OptOut.Turns, turn) || slices.Contains(r.OptOut.PendingTurns, turn)
}

// IsFullyOptedOut reports whether the session has turns, and all opted out. In this case, no session data is stored.
func (r *Record) IsFullyOptedOut() bool {
	return r.Thread.Turns > 0 && len(r.OptOut.Turns) >= r.Thread.Turns
}

// HasVisibleTurn reports whether the session has a turn that is not hidden, or has no turn yet.
func (r *Record) HasVisibleTurn() bool {
	for turn := 1; turn <= r.Thread.Turns; turn++ {
		if !r.IsHidden(turn) {
			return true
		}
	}
	return r.Thread.Turns == 0
}

func newestTurns(turns []int) []int { return turns[max(0, len(turns)-maxHidden):] }

// OptOutMark is the only stored data for a session in which every turn opted out: how many turns and list items the
// session has. The mark tells other replicas about the opt-out.
type OptOutMark struct{ Turns, Items int }

// OptOutMark returns the session's mark. ok is false if a turn did not opt out.
func (r *Record) OptOutMark() (m OptOutMark, ok bool) {
	return OptOutMark{r.Thread.Turns, r.Thread.Items}, r.IsFullyOptedOut()
}

// Hide marks the turns up to m.Turns as opted out. A mark with fewer list items than the record is outdated, and has no
// effect.
func (r *Record) Hide(m OptOutMark) {
	if m.Items < r.Thread.Items {
		return
	}
	r.Thread.Turns, r.Thread.Items = max(r.Thread.Turns, m.Turns), m.Items
	for turn := 1; turn <= r.Thread.Turns; turn++ {
		r.SetOptedOut(turn, true)
	}
}
