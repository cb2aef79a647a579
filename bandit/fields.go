package bandit

import "precept/bandit/trial"

// The counters that only the chooser reads. They lie beside those of the trial, in the same scopes
// and under the same days.
const (
	fS1      = "s1"       // of an arm, dated: injected, the sum of the residuals
	fS0      = "s0"       // of an arm, dated: withheld
	fSU      = "su"       // of an arm, dated: matched and not picked, or control
	fGraded  = "graded"   // global: rewards that are neither 0 nor 1
	fRes2    = "res2"     // global: the sum of the squared residuals of the model
	fCN, fCS = "cn", "cs" // of a category: sessions, rewards less what lessons explain
)

// categoryMark begins the scope of a baseline.
const categoryMark = "x:"

func categoryScope(category string) string { return categoryMark + category }

// owner is in which scopes a counter is the chooser's: a name may mean something else in another.
type owner uint8

const (
	nobody owner = iota
	ofArm
	ofCategory
	ofTenant
)

// ownerOf says whose a scope is.
func ownerOf(scope string) owner {
	switch {
	case scope == "":
		return ofTenant
	case trial.OfArm(scope):
		return ofArm
	case scope[:2] == categoryMark:
		return ofCategory
	}
	return nobody
}

// The places of the values, by owner.
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
	iTold = iota
	iGraded
	iRes2
	ofATenant
)

// place is where the value of a counter lies.
type place struct {
	of owner
	at int
}

// fields is what the chooser reads, by the name under which it is stored.
//
//nolint:gochecknoglobals // an immutable table, written once here
var fields = map[string]place{
	trial.FieldInjected: {ofArm, iN1}, fS1: {ofArm, iS1}, trial.FieldWithheld: {ofArm, iN0},
	fS0:                 {ofArm, iS0},
	trial.FieldUnpicked: {ofArm, iNU}, fSU: {ofArm, iSU},
	fCN: {ofCategory, iCN}, fCS: {ofCategory, iCS},
	trial.FieldTold: {ofTenant, iTold}, fGraded: {ofTenant, iGraded}, fRes2: {ofTenant, iRes2},
}

// find looks a counter up; ok is false for what the chooser does not read.
func find(d *trial.Delta) (at place, ok bool) {
	at = fields[d.Field]
	return at, at.of != nobody && at.of == ownerOf(d.Scope)
}

func real64(v int64) float64 { return float64(v) / trial.One }
