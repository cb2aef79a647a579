package bandit

import "precept/bandit/trial"

// Counters that only the chooser reads, in the same scopes and under the same days as the counters
// of a trial.
const (
	fS1      = "s1"       // per arm and day, injected: sum of the residuals
	fS0      = "s0"       // per arm and day, withheld: sum of the residuals
	fSU      = "su"       // per arm and day, matched and not picked, or control: sum of the residuals
	fGraded  = "graded"   // global: rewards other than 0 and 1
	fRes2    = "res2"     // global: sum of the squared residuals of the model
	fCN, fCS = "cn", "cs" // per category: number of sessions, and sum of rewards less the part that lessons explain
)

// categoryMark is the prefix of the scope of a baseline.
const categoryMark = "x:"

func categoryScope(category string) string { return categoryMark + category }

// owner is the kind of scope in which a counter belongs to the chooser. In another scope the name
// may mean another counter.
type owner uint8

const (
	nobody owner = iota
	ofArm
	ofCategory
	ofTenant
)

// ownerOf returns the kind of a scope.
func ownerOf(scope string) owner {
	switch {
	case scope == "":
		return ofTenant
	case trial.Arm(scope).IsRule(): // the chooser chooses no section
		return nobody
	case trial.OfArm(scope):
		return ofArm
	case scope[:2] == categoryMark:
		return ofCategory
	}
	return nobody
}

// Indices of the values, by owner.
const (
	iN1 = iota
	iS1
	iN0
	iS0
	iNU
	iSU
	ofAnArm
)

const (
	iCN = iota
	iCS
	ofABaseline
)

const (
	iRewarded = iota
	iGraded
	iRes2
	ofATenant
)

// place is the position of the value of a counter.
type place struct {
	of owner
	at int
}

// fields lists the chooser's counters by the stored name.
//
//nolint:gochecknoglobals // an immutable table, written once here
var fields = map[string]place{
	trial.FieldInjected: {ofArm, iN1}, fS1: {ofArm, iS1}, trial.FieldWithheld: {ofArm, iN0},
	fS0:                 {ofArm, iS0},
	trial.FieldUnpicked: {ofArm, iNU}, fSU: {ofArm, iSU},
	fCN: {ofCategory, iCN}, fCS: {ofCategory, iCS},
	trial.FieldRewarded: {ofTenant, iRewarded}, fGraded: {ofTenant, iGraded}, fRes2: {ofTenant, iRes2},
}

// find looks up a counter. ok is false for a counter that the chooser does not read.
func find(d *trial.Delta) (at place, ok bool) {
	at = fields[d.Key.Field]
	return at, at.of != nobody && at.of == ownerOf(d.Key.Scope)
}

func real64(v int64) float64 { return float64(v) / trial.One }
