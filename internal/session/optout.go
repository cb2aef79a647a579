package session

import "slices"

// maxHidden bounds the hidden turns of a record. The oldest turn is dropped first: by then, the record
// has no data of that turn any more.
const maxHidden = 4096

// AddPendingTurn adds a turn to OptOut.PendingTurns. The recorder searches the turn for an opt-out later, and then
// calls SetOptedOut. Until then, a row contains no content of the turn. The caller locks the record.
func (r *Record) AddPendingTurn(turn int) {
	if turn > 0 && !slices.Contains(r.OptOut.PendingTurns, turn) {
		r.OptOut.PendingTurns = newestTurns(append(r.OptOut.PendingTurns, turn))
	}
}

// SetOptedOut stores whether the turn opted out. A row contains no data from the text of an opted-out
// turn, even if a later turn repeats the text. An opt-out is final, also for a retry of the turn.
// The caller locks the record.
func (r *Record) SetOptedOut(turn int, optedOut bool) {
	r.OptOut.PendingTurns = slices.DeleteFunc(r.OptOut.PendingTurns, func(t int) bool { return t == turn })
	if optedOut && turn > 0 && !slices.Contains(r.OptOut.Turns, turn) {
		r.OptOut.Turns = newestTurns(append(r.OptOut.Turns, turn))
	}
}

// IsHidden reports whether the turn opted out, or its opt-out is not decided yet. The caller locks the record.
func (r *Record) IsHidden(turn int) bool {
	return slices.Contains(r.OptOut.Turns, turn) || slices.Contains(r.OptOut.PendingTurns, turn)
}

// IsFullyOptedOut reports whether the session has turns and all turns opted out. No data of such a session
// may be stored. The caller locks the record.
func (r *Record) IsFullyOptedOut() bool {
	return r.Thread.Turns > 0 && len(r.OptOut.Turns) >= r.Thread.Turns
}

// HasVisibleTurn reports whether the session has a turn that is not hidden, or no turn yet. The caller locks the
// record.
func (r *Record) HasVisibleTurn() bool {
	for turn := 1; turn <= r.Thread.Turns; turn++ {
		if !r.IsHidden(turn) {
			return true
		}
	}
	return r.Thread.Turns == 0
}

// newestTurns returns the last maxHidden turns.
func newestTurns(turns []int) []int { return turns[max(0, len(turns)-maxHidden):] }

// OptOutMark is the only stored data of a session whose turns all opted out: the number of turns, and the length
// of the list. Other replicas read the opt-out from the mark.
type OptOutMark struct{ Turns, Items int }

// OptOutMark returns the mark of the session. ok is false if a turn of the session did not opt out. The caller
// locks the record.
func (r *Record) OptOutMark() (m OptOutMark, ok bool) {
	return OptOutMark{r.Thread.Turns, r.Thread.Items}, r.IsFullyOptedOut()
}

// Hide applies a mark: the turns from 1 to m.Turns become opted-out turns. A mark of a list that is
// shorter than the list of the record is outdated and has no effect. The caller locks the record.
func (r *Record) Hide(m OptOutMark) {
	if m.Items < r.Thread.Items {
		return
	}
	r.Thread.Turns, r.Thread.Items = max(r.Thread.Turns, m.Turns), m.Items
	for turn := 1; turn <= r.Thread.Turns; turn++ {
		r.SetOptedOut(turn, true)
	}
}
