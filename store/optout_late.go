package store

import (
	"slices"

	"precept/bandit/feedback"
	"precept/internal/sample"
	"precept/internal/session"
)

// LateOptOut hides content of a stored session that names a path which opted out after the session was
// stored.
type LateOptOut struct {
	rules  *sample.OptOut
	list   []sample.Exchange
	hidden []bool // whether each exchange of list is hidden
	// judged reports that the present patterns judged every exchange of the session before the write, so that
	// the exchanges that left the store name no opted-out path.
	judged bool
	rec    *session.Record // nil means the row is missing or cannot be read
}

// NewLateOptOut returns the opt-outs of a session with its row and all its stored exchanges.
func NewLateOptOut(rules *sample.OptOut, row *session.Row, list []sample.Exchange) *LateOptOut {
	rec, err := session.Decode(row.ID, row.Data)
	if err != nil {
		rec = nil
	}
	return &LateOptOut{
		rules: rules, list: list, hidden: rules.Hidden(list), rec: rec,
		judged: !rules.HidesPaths() || rec != nil && !rec.Unit.IsRun && rec.Facts.Paths == rules.PathHash(),
	}
}

// Sample reports whether a sample may leave the store. Sample removes the words of feedback that may be about
// an opted-out turn.
func (l *LateOptOut) Sample(m *sample.Sample) bool {
	if l.rules.HidesSample(m, l.list, l.judged) {
		return false
	}
	if m.HasSessionWords() && l.hidesWords() {
		m.DropWords()
	}
	return true
}

// Feedback returns the feedback of the session without the words that may be about an opted-out turn. Scores
// stay: the reward contains them.
func (l *LateOptOut) Feedback(entries []feedback.Entry) []feedback.Entry {
	out := slices.Clone(entries)
	for i := range out {
		e := &out[i]
		if e.Turn == 0 && l.hidesWords() || e.Turn != 0 && l.hidesTurn(e.Turn) || e.Via != "" && !l.judged {
			e.Comment, e.Correction, e.Details = "", nil, nil
		}
	}
	return out
}

// hidesWords reports whether words about the whole session may be about an opted-out turn. Without a readable row
// the turns that opted out are unknown.
func (l *LateOptOut) hidesWords() bool {
	return l.hidesSome() || l.rec == nil || len(l.rec.OptOut.Turns) > 0
}

// hidesSome reports whether a stored turn of the session is hidden, or a turn that left the store may be hidden.
func (l *LateOptOut) hidesSome() bool {
	if some := slices.Contains(l.hidden, true); some || l.judged {
		return some
	}
	turns := map[int]bool{}
	for i := range l.list {
		turns[l.list[i].Turn] = true
	}
	return l.rec == nil || l.rec.Unit.IsRun || len(turns) < l.rec.Thread.Turns
}

// hidesTurn reports whether a turn is hidden, or may be hidden because its exchange left the store.
func (l *LateOptOut) hidesTurn(turn int) bool {
	stored := false
	for i := range l.list {
		if l.list[i].Turn == turn {
			stored = true
			if l.hidden[i] {
				return true
			}
		}
	}
	return !stored && (!l.judged || l.rec != nil && slices.Contains(l.rec.OptOut.Turns, turn))
}
