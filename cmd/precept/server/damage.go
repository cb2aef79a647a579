package server

import (
	"sync"

	"precept/internal/session"
)

const maxDamaged = 100 // reported sessions

// damageReport is the state behind the function that DamageReport returns.
type damageReport struct {
	report func(ref session.Ref, err error)

	mu   sync.Mutex
	seen map[session.Ref]bool
}

// DamageReport returns a function that calls report at most once for each session, and for at most maxDamaged sessions.
func DamageReport(report func(ref session.Ref, err error)) func(ref session.Ref, err error) {
	d := &damageReport{report: report, seen: map[session.Ref]bool{}}
	return d.reportOnce
}

func (d *damageReport) reportOnce(ref session.Ref, err error) {
	d.mu.Lock()
	isNew := !d.seen[ref] && len(d.seen) < maxDamaged
	if isNew {
		d.seen[ref] = true
	}
	d.mu.Unlock()
	if isNew {
		d.report(ref, err)
	}
}
