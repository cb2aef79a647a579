package bandit

import "precept/trial"

// The fields of an arm. Dated ones (n1 to zz, y1 and y0 of the global scope as s1 and s0) live in
// day buckets: the chooser discounts them by age, the report adds them up.
const (
	fN1        = "n1"       // injected: sessions, residuals
	fN0        = "n0"       // withheld
	fN         = "n"        // randomised: sessions that enter the report
	fZ, fZZ    = "z", "zz"  // sums of z and of its square
	fClosed    = "closed"   // global: sessions closed
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
	fTold      = "told"     // global: sessions with a reward
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

const trialMark = "t:"

const ofAny = "any."

const tiers = 4

type (
	// Arm is what is measured.
	Arm = trial.Arm
	// Match is a lesson that matched.
	Match = trial.Match
	// Pick is a chosen lesson.
	Pick = trial.Pick
	// Assignment is what was decided of a session.
	Assignment = trial.Assignment
	// AtClosing is a reward as it stood at the closing.
	AtClosing = trial.AtClosing
	// Delta is one integer to add to a counter.
	Delta = trial.Delta
	// Key names a counter.
	Key = trial.Key
)

// Unit is what the counters count in.
const Unit = trial.Unit
