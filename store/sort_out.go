package store

import (
	"precept/sample"
	"precept/session"
)

// sortOut takes out of what waits to be put down whatever makes that panic: each thing is tried by
// itself. Where none of them is to blame alone, all exchanges go: the recorder must not stand still
// for ever.
func (r *recorder) sortOut() {
	p := &r.next
	before := len(p.rows) + len(p.echoes) + len(p.exchanges) + len(p.signals)
	p.rows = sound(r, p.rows, func(one []session.Row) batch { return batch{rows: one} })
	p.echoes = sound(r, p.echoes, func(one []session.Echo) batch { return batch{echoes: one} })
	p.signals = sound(r, p.signals, func(one []signal) batch { return batch{signals: one} })
	bad := map[string]bool{}
	for i := range p.exchanges {
		x := &p.exchanges[i]
		if !r.guard.On("spool", refOf(x), x.ID, func() { (&batch{exchanges: p.exchanges[i : i+1]}).append(nil) }) {
			bad[x.ID] = true
		}
	}
	if len(bad) == 0 && before == len(p.rows)+len(p.echoes)+len(p.exchanges)+len(p.signals) {
		for i := range p.exchanges {
			bad[p.exchanges[i].ID] = true
		}
		p.rows, p.echoes, p.signals = nil, nil, nil
	}
	r.tally.DroppedBad.Add(p.giveUp(droppedBad, func(x *sample.Exchange) bool { return bad[x.ID] }))
}

// sound are those of a list that can be put down without a panic.
func sound[T any](r *recorder, list []T, of func(one []T) batch) []T {
	out := list[:0:0]
	for i := range list {
		if r.guard.Step("spool", func() { p := of(list[i : i+1]); p.append(nil) }) {
			out = append(out, list[i])
		}
	}
	return out
}
