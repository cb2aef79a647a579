package distill

import "testing"

// Sessions in one run work on the same task, so one session does not confirm the other.
func TestSessionsInOneRunAreNotIndependent(t *testing.T) {
	a, b := Ref{Session: "1", Callers: []string{"x"}, Run: "ci-1"}, Ref{Session: "2", Callers: []string{"y"}, Run: "ci-1"}
	if hasIndependentPair([]Ref{a, b}) {
		t.Error("two sessions in one run count as independent")
	}
	if b.Run = "ci-2"; !hasIndependentPair([]Ref{a, b}) {
		t.Error("sessions in two runs by two callers do not count as independent")
	}
	if a.Run, b.Run = "", ""; !hasIndependentPair([]Ref{a, b}) {
		t.Error("sessions by two callers without a run do not count as independent")
	}
}
