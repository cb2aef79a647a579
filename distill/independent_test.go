package distill

import "testing"

// The sessions in one run work on the same task, so they do not confirm each other.
func TestSessionsInOneRunAreNotIndependent(t *testing.T) {
	a, b := Ref{Session: "1", Callers: []string{"x"}, Run: "ci-1"}, Ref{Session: "2", Callers: []string{"y"}, Run: "ci-1"}
	if hasIndependentPair([]Ref{a, b}) {
		t.Error("two sessions in one run: got independent, want not independent")
	}
	if b.Run = "ci-2"; !hasIndependentPair([]Ref{a, b}) {
		t.Error("sessions in two runs by two callers: got not independent, want independent")
	}
	if a.Run, b.Run = "", ""; !hasIndependentPair([]Ref{a, b}) {
		t.Error("sessions by two callers without a run: got not independent, want independent")
	}
}
