package distill

import "testing"

// The sessions of several agents of one run are one sighting, because the agents worked on the same task.
func TestSessionsOfARunAreOneSighting(t *testing.T) {
	a, b := Ref{Session: "1", Callers: []string{"x"}, Run: "ci-1"}, Ref{Session: "2", Callers: []string{"y"}, Run: "ci-1"}
	if hasIndependent([]Ref{a, b}) {
		t.Error("two agents of one run are independent, want dependent")
	}
	if b.Run = "ci-2"; !hasIndependent([]Ref{a, b}) {
		t.Error("two runs of two credentials are not independent")
	}
	if a.Run, b.Run = "", ""; !hasIndependent([]Ref{a, b}) {
		t.Error("two sessions outside of runs are not independent")
	}
}
