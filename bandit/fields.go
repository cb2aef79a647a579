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
	noOwner owner = iota
	armOwner
	categoryOwner
	tenantOwner
)

// ownerOf returns the kind of a scope.
func ownerOf(scope string) owner {
	switch {
	case scope == "":
		return tenantOwner
	case trial.Arm(scope).IsRule(): // the chooser chooses no section
		return noOwner
	case trial.IsArm(scope):
		return armOwner
	case scope[:2] == categoryMark:
		return categoryOwner
	}
	return noOwner
}

// Indices of the values, by owner.
const (
	iN1 = iota
	iS1
	iN0
	iS0
	iNU
	iSU
	armFields
)

const (
	iCN = iota
	iCS
	baselineFields
)

const (
	iRewarded = iota
	iGraded
	iRes2
	tenantFields
)

// place is the position of the value of a counter.
type place struct {
	owner owner
	index int
}

// fields lists the chooser's counters by the stored name.
//
//nolint:gochecknoglobals // an immutable table, written once here
var fields = map[string]place{
	trial.FieldInjected: {armOwner, iN1}, fS1: {armOwner, iS1}, trial.FieldWithheld: {armOwner, iN0},
	fS0:                 {armOwner, iS0},
	trial.FieldUnpicked: {armOwner, iNU}, fSU: {armOwner, iSU},
	fCN: {categoryOwner, iCN}, fCS: {categoryOwner, iCS},
	trial.FieldRewarded: {tenantOwner, iRewarded}, fGraded: {tenantOwner, iGraded}, fRes2: {tenantOwner, iRes2},
}

// find looks up a counter. ok is false for a counter that the chooser does not read.
func find(d *trial.Delta) (pos place, ok bool) {
	pos = fields[d.Key.Field]
	return pos, pos.owner != noOwner && pos.owner == ownerOf(d.Key.Scope)
}

// fromFixed returns the number that a fixed-point counter holds.
func fromFixed(v int64) float64 { return float64(v) / trial.One }
