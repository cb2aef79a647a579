package store

import (
	"slices"

	"precept/bandit/feedback"
	"precept/internal/sample"
	"precept/internal/session"
)

// LateOptOut hides content that names a path, if the path was opted out after the session was stored.
type LateOptOut struct {
	rules     *sample.OptOut
	exchanges []sample.Exchange
	hidden    []bool // per exchange
	// checkedBefore means that every exchange was checked against the current patterns before it was stored. Exchanges
	// deleted since then name no opted-out path.
	checkedBefore bool
	rec           *session.Record // nil means missing or unreadable
}

// NewLateOptOut applies the opt-out rules to a session. exchanges are all the session's stored exchanges.
func NewLateOptOut(rules *sample.OptOut, row *session.Row, exchanges []sample.Exchange) *LateOptOut {
	rec, err := session.Decode(row.ID, row.Data)
	if err != nil {
		rec = nil
	}
	return &LateOptOut{
		rules: rules, exchanges: exchanges, hidden: rules.HiddenExchanges(exchanges), rec: rec,
		checkedBefore: !rules.HasPathPatterns() || rec != nil && !rec.Unit.IsRun && rec.Facts.Paths == rules.PathHash(),
	}
}

// AllowSample reports whether a sample can be shown or exported. It removes from the sample any feedback text that
// might be about an opted-out turn.
func (l *LateOptOut) AllowSample(m *sample.Sample) bool {
	if l.rules.HidesSample(m, l.exchanges, l.checkedBefore) {
		return false
	}
	if m.HasSessionFeedbackText() && l.hidesSessionWords() {
		m.DropFeedbackText()
	}
	return true
}

// VisibleFeedback returns the feedback, without text that might be about an opted-out turn. Scores stay, because the
// reward includes them.
func (l *LateOptOut) VisibleFeedback(entries []feedback.Entry) []feedback.Entry {
	out := slices.Clone(entries)
	for i := range out {
		e := &out[i]
		if e.Turn == 0 && l.hidesSessionWords() || e.Turn != 0 && l.hidesTurn(e.Turn) || e.CopiedFrom != "" && !l.checkedBefore {
			e.Comment, e.Correction, e.Details = "", nil, nil
		}
	}
	return out
}

// hidesSessionWords reports whether feedback text on the whole session might be about an opted-out turn. It returns
// true if the row is unreadable.
func (l *LateOptOut) hidesSessionWords() bool {
	return l.hidesAnyTurn() || l.rec == nil || len(l.rec.OptOut.Turns) > 0
}

// hidesAnyTurn reports whether a stored turn is hidden, or a turn with a deleted exchange might be hidden.
func (l *LateOptOut) hidesAnyTurn() bool {
	if anyHidden := slices.Contains(l.hidden, true); anyHidden || l.checkedBefore {
		return anyHidden
	}
	turns := map[int]bool{}
	for i := range l.exchanges {
		turns[l.exchanges[i].Turn] = true
	}
	return l.rec == nil || l.rec.Unit.IsRun || len(turns) < l.rec.Thread.Turns
}

// hidesTurn reports whether a turn is hidden. A turn without a stored exchange is hidden if the session was not
// checked, or if the record lists the turn as opted out.
func (l *LateOptOut) hidesTurn(turn int) bool {
	stored := false
	for i := range l.exchanges {
		if l.exchanges[i].Turn == turn {
			stored = true
			if l.hidden[i] {
				return true
			}
		}
	}
	return !stored && (!l.checkedBefore || l.rec != nil && slices.Contains(l.rec.OptOut.Turns, turn))
}
