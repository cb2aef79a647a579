package distill

import (
	"cmp"
	"runtime/debug"
)

// MaxCases is the maximum number of cases per tenant. Invented failures could otherwise fill the store.
const MaxCases = 5000

// applyRules adds the failures and corrections in a session to the cases. A panic in applyRules affects only this
// session.
func (w *tenantDistiller) applyRules(s *Session, m *judgeMark) {
	defer func() {
		if v := recover(); v != nil {
			w.reportFailure(s, &panicError{v, debug.Stack()})
		}
	}()
	r := parseSession(s, w.orgWords)
	w.summary.Judged++
	w.lastSession++
	for _, c := range append(r.failures(), r.userOccurrences()...) {
		w.addToCase(&c.failure, m)
		if len(w.errorsByCase[c.failure.Key]) < 3 && len(w.errorsByCase) < 4096 { // bounds the memory for testTrigger
			w.errorsByCase[c.failure.Key] = append(w.errorsByCase[c.failure.Key], c.seen)
		}
	}
}

// addToCase adds one session's counts to the case for all sessions. The session and each fix count once, even if the
// session is read again.
func (w *tenantDistiller) addToCase(c *Case, m *judgeMark) {
	first := m.addOnce(c.Key)
	fixes := c.Fixes[:0:0]
	for _, counted := range c.Fixes {
		if counted.Sessions == 0 {
			if m.addOnce("failed|" + c.Key + "|" + counted.fix().key()) {
				fixes = append(fixes, counted)
			}
			continue
		}
		if m.addOnce(c.Key + "|" + counted.fix().key()) {
			if m.addOnce("lesson|" + c.groupKey(&counted)) {
				counted.Distinct = 1
			}
			fixes = append(fixes, counted)
		}
	}
	if c.Ended > 0 && !m.addOnce("ended|"+c.Key) {
		c.Ended = 0
	}
	if !first && len(fixes)+c.Ended == 0 {
		return
	}
	c.Fixes, c.Changed = fixes, true
	if !first {
		c.Sessions, c.FailedOnce = 0, 0
	}
	if old := w.cases[c.Key]; old != nil {
		old.add(c)
		c = old
	} else if len(w.cases) >= MaxCases {
		w.removeOldestCase()
	}
	c.Last = w.lastSession
	w.cases[c.Key], w.changedCases[c.Key] = c, c
}

// removeOldestCase removes the case with the oldest last occurrence. Otherwise, a tenant with MaxCases old failures
// would never get a lesson about a new failure.
func (w *tenantDistiller) removeOldestCase() {
	var oldest *Case
	for _, c := range w.cases {
		if oldest == nil || cmp.Or(cmp.Compare(c.Last, oldest.Last), cmp.Compare(c.Sessions, oldest.Sessions), cmp.Compare(c.Key, oldest.Key)) < 0 {
			oldest = c
		}
	}
	delete(w.cases, oldest.Key)
	w.changedCases[oldest.Key] = nil
	w.summary.RemovedCases++
}
