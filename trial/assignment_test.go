package trial_test

import (
	"encoding/json"
	"testing"

	"precept/trial"
)

// sampleAssignment has an injected, a withheld and an unpicked lesson, and a loop warning.
func sampleAssignment() trial.Assignment {
	return trial.Assignment{
		ControlP: 0.05, Category: "cat", Base: 0.6, C: 0.55, Decided: true, Day: 20000,
		Matched: []trial.Match{{Arm: "in@1", Del: -0.1}, {Arm: "out@1", Del: 0.05}, {Arm: "not@1", Del: 0}},
		Picks: []trial.Pick{
			{Slug: "in", Arm: "in@1", Eps: 0.2, Injected: true, M: 0.04, Off: 0.65, C: 0.55, Tokens: 30, Turn: 1},
			{Slug: "out", Arm: "out@1", Eps: 0.5, Injected: false, M: 0.02, Off: 0.54, C: 0.59, Tokens: 50, Turn: 1},
			{Slug: "loop-warning", Arm: trial.LoopArm, Eps: 0.2, Injected: true, M: 0.01, Off: 0.59, C: 0.4, Turn: 3},
		},
	}
}

// A record is read by other versions: its JSON names are fixed.
func TestAssignmentJSON(t *testing.T) {
	a := sampleAssignment()
	b, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"g":0.05,"cat":"cat","base":0.6,"c":0.55,"dec":true,"m":[{"arm":"in@1","del":-0.1},{"arm":"out@1","del":0.05},{"arm":"not@1","del":0}],` +
		`"p":[{"slug":"in","arm":"in@1","eps":0.2,"inj":true,"m":0.04,"off":0.65,"c":0.55,"tok":30,"turn":1,"p":0}`
	if string(b[:len(want)]) != want {
		t.Errorf("%s", b)
	}
}
