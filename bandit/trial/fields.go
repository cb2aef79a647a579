package trial

import (
	"strconv"
	"strings"
)

// The fields that the chooser reads as well. The dated ones live under the day of their session.
const (
	FieldInjected = "n1"   // dated: sessions with the lesson, or treated
	FieldWithheld = "n0"   // dated: sessions without it, or control
	FieldUnpicked = "nu"   // dated: sessions in which it matched and was not picked, or control
	FieldTold     = "told" // global: sessions with a reward
)

// The other fields. Dated are n, z, zz, and s1 and s0.
const (
	fS1, fS0   = "s1", "s0" // global: rewards of the treated and of the control sessions
	fN         = "n"        // randomised: sessions that enter the report
	fZ, fZZ    = "z", "zz"  // sums of z and of its square
	fM1, fY1   = "m1", "y1" // told sessions and rewards, injected
	fM0, fY0   = "m0", "y0" // the same, withheld
	fMatched   = "matched"  // closed sessions in which the lesson matched
	fPicked    = "picked"   // and was picked
	fTokens    = "tokens"   // tokens injected
	fClosed    = "closed"   // global, dated: sessions closed
	fAdded     = "added"    // global, dated: the same, of all lessons together
	fBilled    = "billed"   // global, dated, followed by 0 or 1: spent of the control and of the treated sessions
	fRead      = "read"     // global, dated: their input
	fKept      = "kept"     // global, dated: and those of them that it had cached
	fSpent     = "spent"    // followed by 0 or 1: closed sessions of which the upstream told the tokens, withheld and injected
	fInput     = "input"    // their input tokens, in thousands
	fCached    = "cached"   // and those of them that it had cached
	fRefused   = "refused"  // followed by 0 or 1: closed sessions of which the upstream refused the changed request, withheld and injected
	fSuccess   = "success"  // told injected sessions with a reward of at least .5
	fFailure   = "failure"  // and below
	fBetter    = "better"   // sum of max(0, y-off) over injected sessions
	fWorse     = "worse"    // sum of max(0, off-y)
	fSumY      = "sumy"     // global: their rewards
	fEmaxUp    = "emax+"    // micro-logarithm of the running maximum of E+
	fEmaxDown  = "emax-"    //
	fProvenAt  = "proven_at"
	fOutUp     = "out+" // micro-logarithm of 1/p, p the smallest ever at which the interval lay above 0
	fOutDown   = "out-" // and below
	fIdleAt    = "idle_at"
	wUp, wDown = "w+", "w-" // followed by k = 1..6: sums of ln(1 +- lambda_k z)
)

// The fields of the coins of one propensity, each followed by 0 or 1 for the arm; told and heard by
// the tier of the reward as well. The propensity follows, in millionths: "told1.2@200000".
const (
	fAssigned = "a"     // closed sessions
	fHeard    = "heard" // sessions with a reward at their closing: what the checks read, which must not move afterwards
	fRewards  = "y"     // sums of rewards
	atRate    = "@"
)

// kind is how the values of a counter are put together, and in which part of the sums they lie.
type kind uint8

const (
	daily    kind = iota // a sum for each day
	ofTenant             // the same, in the tenant's own scope; in an arm's the name is the chooser's
	outlay               // the same, of what sessions cost
	overall              // one sum
	bet                  // one sum for each size of bet
	coins                // a sum for each propensity
	maximum              // no sum: the largest value
)

// The places of the values, by kind.
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
	dailies
)

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
	iTold
	iSumY
	iSpent   // withheld: sessions, input, cached; the same injected
	iRefused = iSpent + 6
	overalls = iRefused + 2
)

const (
	iAdded  = iota
	iBilled // control: sessions, input, cached; the same treated
	outlays = iBilled + 6
)

const (
	iAssigned = 0
	iToldBy   = iAssigned + 2
	iHeardBy  = iToldBy + 2*tiers
	iRewards  = iHeardBy + 2*tiers
	coinSums  = iRewards + 2
)

const (
	iEmaxUp = iota
	iEmaxDown
	iProvenAt
	iOutUp
	iOutDown
	iIdleAt
	maxima
)

// place is where the value of a counter lies.
type place struct {
	kind kind
	at   int
}

// fields is every counter of a trial, by the name under which it is stored. The chooser has its own
// beside them; what is in neither table is ignored: an older precept reads what a newer one wrote.
var fields = table() //nolint:gochecknoglobals // an immutable table, written once here

func table() map[string]place {
	t := map[string]place{
		FieldInjected: {daily, iN1}, FieldWithheld: {daily, iN0}, FieldUnpicked: {daily, iNU},
		fN: {daily, iN}, fZ: {daily, iZ}, fZZ: {daily, iZZ}, fClosed: {daily, iClosed},
		fS1: {ofTenant, iS1}, fS0: {ofTenant, iS0}, fAdded: {outlay, iAdded},

		fM1: {overall, iM1}, fY1: {overall, iY1}, fM0: {overall, iM0}, fY0: {overall, iY0},
		fMatched: {overall, iMatched}, fPicked: {overall, iPicked}, fTokens: {overall, iTokens},
		fSuccess: {overall, iSuccess}, fFailure: {overall, iFailure}, fBetter: {overall, iBetter},
		fWorse:    {overall, iWorse},
		FieldTold: {overall, iTold}, fSumY: {overall, iSumY},

		fEmaxUp: {maximum, iEmaxUp}, fEmaxDown: {maximum, iEmaxDown},
		fProvenAt: {maximum, iProvenAt},
		fOutUp:    {maximum, iOutUp}, fOutDown: {maximum, iOutDown}, fIdleAt: {maximum, iIdleAt},
	}
	for arm := range 2 {
		b := strconv.Itoa(arm)
		for i, name := range []string{fSpent, fInput, fCached} {
			t[name+b] = place{overall, iSpent + 3*arm + i}
		}
		for i, name := range []string{fBilled, fRead, fKept} {
			t[name+b] = place{outlay, iBilled + 3*arm + i}
		}
		t[fRefused+b] = place{overall, iRefused + arm}
		t[fAssigned+b+atRate], t[fRewards+b+atRate] = place{coins, iAssigned + arm}, place{coins, iRewards + arm}
		for tier := range tiers {
			by := b + "." + strconv.Itoa(tier) + atRate
			t[FieldTold+by], t[fHeard+by] = place{coins, iToldBy + tiers*arm + tier}, place{
				coins, iHeardBy + tiers*arm + tier,
			}
		}
	}
	for k := range bets {
		t[wUp+strconv.Itoa(k+1)], t[wDown+strconv.Itoa(k+1)] = place{bet, k}, place{bet, bets + k}
	}
	return t
}

// find looks a counter's name up. eps is the propensity of a coin, in millionths; anything says
// that it is one of those of ofAny.
func find(name string) (at place, eps int64, anything, ok bool) {
	plain, rate, flipped := strings.Cut(name, atRate)
	if !flipped {
		at, ok = fields[name]
		return at, 0, false, ok
	}
	eps, err := strconv.ParseInt(rate, 10, 64)
	plain, anything = strings.CutPrefix(plain, ofAny)
	at, ok = fields[plain+atRate]
	return at, eps, anything, ok && err == nil
}

// Monotone says that the counter is merged by maximum, not by addition. Only Counters.Maxima makes
// such deltas.
func (k Key) Monotone() bool { return fields[k.Field].kind == maximum }

// bit is '1' for injected (or treated), '0' for withheld (or control).
func bit(injected bool) string {
	if injected {
		return "1"
	}
	return "0"
}

// ofCoin names a counter of one stratum: of one arm, at one propensity. Shares of different
// propensities must not be pooled: that would be Simpson's paradox.
func ofCoin(field string, injected bool, eps float64) string {
	return field + bit(injected) + atRate + strconv.FormatInt(Fixed(eps), 10)
}

// ofTier names a counter of one stratum that is kept by tier.
func ofTier(field string, injected bool, tier int, eps float64) string {
	if tier < 1 || tier >= tiers {
		tier = 0
	}
	return field + bit(injected) + "." + strconv.Itoa(tier) + atRate + strconv.FormatInt(Fixed(eps), 10)
}

// ofAny marks the counters of the coins "is anything of what was picked injected": they stand
// beside those of the control coin, in the global scope.
const ofAny = "any."

// tiers is how many sources of reward there are: user, verifier, implicit. Tier 0 holds what names
// none of them.
const tiers = 4

// Told counts the rewards in deltas: what is compared with RefitEvery.
func Told(ds []Delta) int { return int(count(ds, FieldTold)) }

// Closed counts the sessions that were closed in deltas.
func Closed(ds []Delta) int64 { return count(ds, fClosed) }

// count adds up one of the tenant's own counters.
func count(ds []Delta, field string) (n int64) {
	for _, d := range ds {
		if d.Scope == "" && d.Field == field {
			n += d.Value
		}
	}
	return n / One
}
