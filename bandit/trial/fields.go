package trial

import (
	"strconv"
	"strings"
)

// The chooser also reads these fields. A dated field has one counter per session day. A global field belongs to the
// tenant, any other field to an arm.
const (
	FieldInjected = "n1"   // dated: rewarded sessions with the lesson; global: treated sessions
	FieldWithheld = "n0"   // dated: rewarded sessions with the lesson withheld; global: control sessions
	FieldUnpicked = "nu"   // dated: rewarded sessions with a match but no pick, including control sessions
	FieldRewarded = "told" // global: sessions with a reward
)

// All further fields. y is a session's reward, off is Pick.Offset, and z is what the session adds to the effect.
const (
	fS1, fS0         = "s1", "s0"  // global, dated: rewards in treated and in control sessions
	fN               = "n"         // dated: randomised sessions with a reward
	fZ, fZZ          = "z", "zz"   // dated: sums of z and of z squared
	fM1, fY1         = "m1", "y1"  // rewarded sessions and rewards, injected
	fM0, fY0         = "m0", "y0"  // rewarded sessions and rewards, withheld
	fMatched         = "matched"   // closed sessions with a match
	fPicked          = "picked"    // closed sessions with a pick
	fTokens          = "tokens"    // tokens injected
	fClosed          = "closed"    // global, dated: sessions closed
	fAdded           = "added"     // global, dated: tokens injected, all lessons
	fBilled          = "billed"    // global, dated, with suffix 0 or 1: sessions with known cost, control and treated
	fBilledInput     = "read"      // global, dated: input tokens of these sessions
	fBilledCached    = "kept"      // global, dated: cached input tokens of these sessions
	fSpent           = "spent"     // with suffix 0 or 1: closed sessions with known tokens, withheld and injected
	fInput           = "input"     // input tokens of these sessions, in thousands
	fCached          = "cached"    // cached input tokens of these sessions
	fRefused         = "refused"   // with suffix 0 or 1: closed sessions with a refused request, withheld and injected
	fMeasuredRules   = "beside"    // global: closed sessions with a match and a measured rules file section
	fExcluded        = "excluded." // global, with the reason: closed sessions outside the experiment
	fSuccess         = "success"   // injected sessions with a reward >= .5
	fFailure         = "failure"   // injected sessions with a reward < .5
	fBetter          = "better"    // sum of max(0, y-off) over injected sessions
	fWorse           = "worse"     // sum of max(0, off-y) over injected sessions
	fSumY            = "sumy"      // global: summed rewards
	fEmaxUp          = "emax+"     // largest e-value for help so far, as logarithm in millionths
	fEmaxDown        = "emax-"     // the same for harm
	fProvenAt        = "proven_at" // unix seconds when the e-value for help reached 20
	fMaxAbove        = "out+"      // ln(1/p) in millionths, for the smallest p with the whole interval above 0
	fMaxBelow        = "out-"      // the same, below 0
	fNoEffectAt      = "idle_at"   // unix seconds of the first interval within 3 points of 0
	fBetUp, fBetDown = "w+", "w-"  // with suffix k = 1..6: sum of ln(1 +- lambda_k z)
)

// Fields for one stratum (the sessions with one withholding probability). The suffix 0 (withheld) or 1 (injected)
// follows the name, then the tier for rewarded sessions, and then the probability in millionths, as in
// "told1.2@200000".
const (
	fAssigned    = "a"     // closed sessions
	fAtClose     = "heard" // sessions with a reward when they closed; later feedback does not change this
	fRewards     = "y"     // summed rewards
	fGraded      = "yy"    // summed y (1 - y); the sum of y squared is the sum of y minus this sum
	fGradedN     = "gn"    // number of rewards in fGraded, which excludes sessions that an earlier release closed
	fGradedY     = "gy"    // sum of these rewards
	fLate        = "late"  // sessions without a reward at close that got one later
	epsSeparator = "@"
)

// aggregation is how a counter's values are aggregated.
type aggregation uint8

const (
	daily          aggregation = iota // one sum per day
	tenantDaily                       // one sum per day, global; in an arm's scope, the chooser uses the name
	dailyCost                         // one cost sum per day
	overallSum                        // one sum
	betSum                            // one sum per bet size
	outcomeSum                        // one sum for an outcome
	surrogateSum                      // one sum for the surrogate
	modelSum                          // one sum for a model
	stratumSum                        // one sum per withholding probability
	runningMaximum                    // the largest value
)

// Indices into the daily sums.
const (
	iN1 = iota
	iN0
	iNU
	iN
	iZ
	iZZ
	iClosed
	iS1
	iS0
	dailyCount
)

// Indices into the overall sums.
const (
	iM1 = iota
	iY1
	iM0
	iY0
	iMatched
	iPicked
	iTokens
	iSuccess
	iFailure
	iBetter
	iWorse
	iRewarded
	iSumY
	iSpent         // withheld: sessions, input, cached; then injected
	iRefused       = iSpent + 6
	iMeasuredRules = iRefused + 2
	iMembers       = iMeasuredRules + 1
	iExcluded      = iMembers + 1 // by reason, in the order of ExclusionReasons
	overallCount   = iExcluded + exclusionReasons
)

// Indices into the daily costs.
const (
	iAdded    = iota
	iBilled   // control: sessions, input, cached; then treated
	costCount = iBilled + 6
)

// Indices into one stratum's sums, each first for the withheld and then for the injected sessions.
const (
	iAssigned       = 0
	iRewardedBy     = iAssigned + 2
	iAtCloseBy      = iRewardedBy + 2*tiers
	iRewards        = iAtCloseBy + 2*tiers
	iGraded         = iRewards + 2
	iGradedN        = iGraded + 2
	iGradedY        = iGradedN + 2
	iLate           = iGradedY + 2
	stratumSumCount = iLate + 2
)

// Indices into the running maxima.
const (
	iEmaxUp = iota
	iEmaxDown
	iProvenAt
	iMaxAbove
	iMaxBelow
	iNoEffectAt
	maximumCount
)

type position struct {
	kind  aggregation
	index int
}

// fields lists every counter by stored name. An unknown name is ignored, so an older precept can read a newer store.
var fields = newFieldTable() //nolint:gochecknoglobals // an immutable table, written once here

func newFieldTable() map[string]position {
	t := map[string]position{
		FieldInjected: {daily, iN1}, FieldWithheld: {daily, iN0}, FieldUnpicked: {daily, iNU},
		fN: {daily, iN}, fZ: {daily, iZ}, fZZ: {daily, iZZ}, fClosed: {daily, iClosed},
		fS1: {tenantDaily, iS1}, fS0: {tenantDaily, iS0}, fAdded: {dailyCost, iAdded},

		fM1: {overallSum, iM1}, fY1: {overallSum, iY1}, fM0: {overallSum, iM0}, fY0: {overallSum, iY0},
		fMatched: {overallSum, iMatched}, fPicked: {overallSum, iPicked}, fTokens: {overallSum, iTokens},
		fSuccess: {overallSum, iSuccess}, fFailure: {overallSum, iFailure}, fBetter: {overallSum, iBetter},
		fWorse: {overallSum, iWorse}, fMeasuredRules: {overallSum, iMeasuredRules},
		FieldRewarded: {overallSum, iRewarded}, fSumY: {overallSum, iSumY},
		fExcluded + string(ExcludedMember): {overallSum, iMembers},

		fEmaxUp: {runningMaximum, iEmaxUp}, fEmaxDown: {runningMaximum, iEmaxDown},
		fProvenAt: {runningMaximum, iProvenAt},
		fMaxAbove: {runningMaximum, iMaxAbove}, fMaxBelow: {runningMaximum, iMaxBelow}, fNoEffectAt: {runningMaximum, iNoEffectAt},
	}
	for i, why := range ExclusionReasons() {
		t[fExcluded+string(why)] = position{overallSum, iExcluded + i}
	}
	for arm := range 2 {
		b := strconv.Itoa(arm)
		for i, name := range []string{fSpent, fInput, fCached} {
			t[name+b] = position{overallSum, iSpent + 3*arm + i}
		}
		for i, name := range []string{fBilled, fBilledInput, fBilledCached} {
			t[name+b] = position{dailyCost, iBilled + 3*arm + i}
		}
		t[fRefused+b] = position{overallSum, iRefused + arm}
		t[fAssigned+b+epsSeparator], t[fRewards+b+epsSeparator] = position{stratumSum, iAssigned + arm}, position{stratumSum, iRewards + arm}
		t[fGradedN+b+epsSeparator], t[fGradedY+b+epsSeparator] = position{stratumSum, iGradedN + arm}, position{stratumSum, iGradedY + arm}
		t[fGraded+b+epsSeparator], t[fLate+b+epsSeparator] = position{stratumSum, iGraded + arm}, position{stratumSum, iLate + arm}
		for tier := range tiers {
			by := b + "." + strconv.Itoa(tier) + epsSeparator
			t[FieldRewarded+by], t[fAtClose+by] = position{stratumSum, iRewardedBy + tiers*arm + tier}, position{
				stratumSum, iAtCloseBy + tiers*arm + tier,
			}
		}
	}
	for o := range OutcomeCount {
		for i, name := range outcomeFields[o] {
			t[name] = position{outcomeSum, int(o)*outcomeSumCount + i}
		}
	}
	for i, name := range surrogateFields {
		t[name] = position{surrogateSum, i}
	}
	for k := range betCount {
		t[fBetUp+strconv.Itoa(k+1)], t[fBetDown+strconv.Itoa(k+1)] = position{betSum, k}, position{betSum, betCount + k}
	}
	return t
}

// findPosition parses a counter name. For a stratum's counter, eps is the withholding probability in millionths.
// anyInjected reports whether name has the prefix anyPrefix.
func findPosition(name string) (pos position, eps int64, anyInjected, ok bool) {
	plain, rate, isStratum := strings.Cut(name, epsSeparator)
	if !isStratum {
		pos, ok = fields[name]
		return pos, 0, false, ok
	}
	eps, err := strconv.ParseInt(rate, 10, 64)
	plain, anyInjected = strings.CutPrefix(plain, anyPrefix)
	pos, ok = fields[plain+epsSeparator]
	return pos, eps, anyInjected, ok && err == nil
}

// Monotone reports whether the counter is merged by maximum instead of addition.
func (k Key) Monotone() bool { return fields[k.Field].kind == runningMaximum }

func armDigit(injected bool) string {
	if injected {
		return "1"
	}
	return "0"
}

// stratumField names a counter in one stratum. Sums over strata would be subject to Simpson's paradox.
func stratumField(field string, injected bool, eps float64) string {
	return field + armDigit(injected) + epsSeparator + strconv.FormatInt(Fixed(eps), 10)
}

func tierField(field string, injected bool, tier int, eps float64) string {
	if tier < 1 || tier >= tiers {
		tier = 0
	}
	return field + armDigit(injected) + "." + strconv.Itoa(tier) + epsSeparator + strconv.FormatInt(Fixed(eps), 10)
}

// anyPrefix is the prefix of the global counters for two groups: sessions with an injected first pick, and sessions
// with all first picks withheld.
const anyPrefix = "any."

// tiers is the number of tiers, including tier 0 for rewards from an unknown source.
const tiers = 4

// CountRewards counts the rewards in deltas.
func CountRewards(ds []Delta) int { return int(sumField(ds, FieldRewarded)) }

// CountClosed counts the closed sessions in deltas.
func CountClosed(ds []Delta) int64 { return sumField(ds, fClosed) }

func sumField(ds []Delta, field string) (n int64) {
	for _, d := range ds {
		if d.Key.Scope == "" && d.Key.Field == field {
			n += d.Value
		}
	}
	return n / FixedScale
}
