package trial

import (
	"math"
	"slices"
	"strconv"
)

// Unit is what the integer counters count in: millionths.
const Unit = 1_000_000

// Key names one counter of a tenant. Scope is an arm, "" for the global ones, "x:"+category for a
// baseline.
type Key struct {
	Scope string
	Field string // see the constants below
	Day   int32  // the session's day for dated fields, 0 for the others
}

// Delta is one integer to add to a counter (or, when Key.Monotone, to raise it to).
type Delta struct {
	Key
	Value int64
}

// Monotone says that the counter is merged by maximum, not by addition. Only Counters.Maxima makes
// such deltas.
func (k Key) Monotone() bool {
	return k.Field == fEmaxUp || k.Field == fEmaxDown || k.Field == fProvenAt || k.Field == fOutUp || k.Field == fOutDown || k.Field == fIdleAt
}

// The fields that the chooser reads as well. The dated ones live under the day of their session.
const (
	FieldInjected = "n1"     // dated: sessions with the lesson, or treated
	FieldWithheld = "n0"     // dated: sessions without it, or control
	FieldTold     = "told"   // global: sessions with a reward
	FieldClosed   = "closed" // global, dated: sessions closed
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
	fSpent     = "spent"    // followed by 0 or 1: closed sessions of which the upstream told the tokens, withheld and injected
	fInput     = "input"    // their input tokens, in thousands
	fCached    = "cached"   // and those of them that it had cached
	fRefused   = "refused"  // followed by 0 or 1: closed sessions of which the upstream refused the changed request, withheld and injected
	fSuccess   = "success"  // told injected sessions with a reward of at least .5
	fFailure   = "failure"  // and below
	fBetter    = "better"   // sum of max(0, y-off) over injected sessions
	fWorse     = "worse"    // sum of max(0, off-y)
	fHeard     = "heard"    // of a stratum: sessions with a reward at their closing
	fSumY      = "sumy"     // global: their rewards
	fEmaxUp    = "emax+"    // micro-logarithm of the running maximum of E+
	fEmaxDown  = "emax-"    //
	fProvenAt  = "proven_at"
	fOutUp     = "out+" // micro-logarithm of 1/p, p the smallest ever at which the interval lay above 0
	fOutDown   = "out-" // and below
	fIdleAt    = "idle_at"
	wUp, wDown = "w+", "w-" // followed by k = 1..6: sums of ln(1 +- lambda_k z)
)

// bit is '1' for injected (or treated), '0' for withheld (or control).
func bit(injected bool) string {
	if injected {
		return "1"
	}
	return "0"
}

// assigned and told name the counters of one stratum: sessions assigned to an arm at one
// propensity, and of those the rewarded ones by tier. Shares of different propensities must not be
// pooled: that would be Simpson's paradox.
func assigned(injected bool, eps float64) string {
	return "a" + bit(injected) + "@" + strconv.FormatInt(Fixed(eps), 10)
}

func told(injected bool, tier int, eps float64) string {
	return "told" + bit(injected) + "." + strconv.Itoa(tierOf(tier)) + "@" + strconv.FormatInt(Fixed(eps), 10)
}

// heard is told as it was when the session closed: what the checks read, which must not move
// afterwards.
func heard(injected bool, tier int, eps float64) string {
	return fHeard + bit(injected) + "." + strconv.Itoa(tierOf(tier)) + "@" + strconv.FormatInt(Fixed(eps), 10)
}

// rewarded names the sum of the rewards of one stratum.
func rewarded(injected bool, eps float64) string {
	return "y" + bit(injected) + "@" + strconv.FormatInt(Fixed(eps), 10)
}

// ofAny marks the counters of the coins "is anything of what was picked injected": they stand
// beside those of the control coin, in the global scope.
const ofAny = "any."

// tiers is how many sources of reward there are: user, verifier, implicit. Tier 0 holds what names
// none of them.
const tiers = 4

func tierOf(tier int) int {
	if tier < 1 || tier >= tiers {
		return 0
	}
	return tier
}

// Fixed turns a number into millionths. The bound keeps a wild number from overflowing a sum for
// ever.
func Fixed(x float64) int64 {
	if math.IsNaN(x) {
		return 0
	}
	return int64(math.Round(clip(x, -1e6, 1e6) * Unit))
}

// Negate undoes deltas, exactly: they are integers.
func Negate(ds []Delta) []Delta {
	out := slices.Clone(ds)
	for i := range out {
		out[i].Value = -out[i].Value
	}
	return out
}

// Told counts the rewards in deltas: what is compared with RefitEvery.
func Told(ds []Delta) int { return int(count(ds, FieldTold)) }

// Closed counts the sessions that were closed in deltas.
func Closed(ds []Delta) int64 { return count(ds, FieldClosed) }

// count adds up one of the tenant's own counters.
func count(ds []Delta, field string) (n int64) {
	for _, d := range ds {
		if d.Scope == "" && d.Field == field {
			n += d.Value
		}
	}
	return n / Unit
}

// Round rounds to what the counters can hold. Frozen numbers are rounded once, so that a record
// reads the same after a round trip through any encoding, and short records stay short.
func Round(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return math.Round(x*Unit) / Unit
}

func clip(x, lo, hi float64) float64 { return math.Max(lo, math.Min(hi, x)) }
