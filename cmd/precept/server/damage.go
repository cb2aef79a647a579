package server

import (
	"sync"

	"precept/internal/session"
)

// maxDamaged is the number of sessions that one process reports.
const maxDamaged = 100

// damageReport reports each session with a damaged exchange once.
type damageReport struct {
	report func(of session.Ref, err error)

	mu   sync.Mutex
	seen map[session.Ref]bool
}

// DamageReport returns a function that calls report once for each session with a damaged exchange.
func DamageReport(report func(of session.Ref, err error)) func(of session.Ref, err error) {
	d := &damageReport{report: report, seen: map[session.Ref]bool{}}
	return d.once
}

func (d *damageReport) once(of session.Ref, err error) {
	d.mu.Lock()
	fresh := !d.seen[of] && len(d.seen) < maxDamaged
	if fresh {
		d.seen[of] = true
	}
	d.mu.Unlock()
	if fresh {
		d.report(of, err)
	}
}
