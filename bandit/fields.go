package bandit

import "precept/bandit/trial"

// Stored names for the counters that only the chooser reads. A residual is the reward minus the expected reward.
const (
	fSumInjected   = "s1"     // per arm and day: residuals with the lesson injected
	fSumWithheld   = "s0"     // per arm and day: residuals with the lesson withheld
	fSumUnpicked   = "su"     // per arm and day: residuals with a match but no pick
	fGraded        = "graded" // global: number of rewards other than 0 and 1
	fSquares       = "res2"   // global: sum of the whole prediction's squared residuals
	fCategoryCount = "cn"     // per category: rewarded sessions
	fCategorySum   = "cs"     // per category: sum of rewards minus the predicted lesson effects
)

const categoryPrefix = "x:"

func categoryScope(category string) string { return categoryPrefix + category }

// scopeKind is a kind of scope. A field name means a different counter in each kind.
type scopeKind uint8

const (
	otherKind scopeKind = iota // the chooser reads no counter in the scope
	armKind
	categoryKind
	globalKind
)

func parseScopeKind(scope string) scopeKind {
	switch {
	case scope == "":
		return globalKind
	case trial.Arm(scope).IsRule(): // a rules file section's arm, which the chooser does not choose
		return otherKind
	case trial.IsArm(scope):
		return armKind
	case scope[:2] == categoryPrefix:
		return categoryKind
	}
	return otherKind
}

// Indices into an arm's sums. They are counts (N) and sums of residuals (S) for sessions with the lesson injected (1),
// withheld (0) and not picked (U).
const (
	iN1 = iota
	iS1
	iN0
	iS0
	iNU
	iSU
	armFieldCount
)

// Indices into a category's sums.
const (
	iCN = iota
	iCS
	baselineFieldCount
)

// Indices into the tenant's sums.
const (
	iRewarded = iota
	iGraded
	iSquares
	globalFieldCount
)

type position struct {
	scope scopeKind
	index int
}

//nolint:gochecknoglobals // an immutable table, written once here
var fields = map[string]position{
	trial.FieldInjected: {armKind, iN1}, fSumInjected: {armKind, iS1},
	trial.FieldWithheld: {armKind, iN0}, fSumWithheld: {armKind, iS0},
	trial.FieldUnpicked: {armKind, iNU}, fSumUnpicked: {armKind, iSU},
	fCategoryCount: {categoryKind, iCN}, fCategorySum: {categoryKind, iCS},
	trial.FieldRewarded: {globalKind, iRewarded}, fGraded: {globalKind, iGraded}, fSquares: {globalKind, iSquares},
}

func findPosition(d *trial.Delta) (pos position, ok bool) {
	pos = fields[d.Key.Field]
	return pos, pos.scope != otherKind && pos.scope == parseScopeKind(d.Key.Scope)
}

func fromFixed(v int64) float64 { return float64(v) / trial.FixedScale }
