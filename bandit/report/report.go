package report

import (
	"fmt"
	"strings"
	"time"

	"precept/bandit/trial"
)

// Verdict is the conclusion about a lesson, as of today.
type Verdict string

// The verdicts. A row has the first verdict that holds.
const (
	Invalid     Verdict = "invalid"                // the random assignment or the reporting is faulty: no conclusion
	ProvenHelps Verdict = "proven helps"           // survives the correction for all lessons ever tested
	ProvenHarms Verdict = "proven harms"           // as ProvenHelps
	TrialHelps  Verdict = "proven in trial: helps" // the planned trial survives the correction for all planned trials
	TrialHarms  Verdict = "proven in trial: harms" // as TrialHelps
	Helps       Verdict = "helps"                  // the interval excludes 0 or did so earlier, corrected for the other lessons; one in ten of these rows may be wrong
	Harms       Verdict = "harms"                  // as Helps
	NoEffect    Verdict = "no material effect"     // the interval is within 3 points of 0
	LikelyHelps Verdict = "likely helps"           // by the chooser's model; not a proof
	LikelyHarms Verdict = "likely harms"           // as LikelyHelps
	Benched     Verdict = "benched"                // the chooser expects harm and rarely picks the lesson
	Unproven    Verdict = "unproven"               // needs more picks
)

// Report is the response to GET /api/report. Effects are in reward units: 0.05 is 5 points.
type Report struct {
	GeneratedAt      time.Time         `json:"generated_at"`
	RewardDefinition string            `json:"reward_definition"`
	OtherDefinitions []DefinitionCount `json:"other_definitions,omitempty"` // sessions closed under other reward definitions, not counted here
	Objective        string            `json:"objective"`                   // bandit.objective; under every objective, the effects come from withholding at random
	Holdout          string            `json:"holdout"`                     // rule for how long lessons keep the full share bandit.epsilon
	Tenant           string            `json:"tenant,omitempty"`
	Window           string            `json:"window,omitempty"`      // effects in sessions that started in the window; empty: all
	Provisional      bool              `json:"provisional,omitempty"` // open sessions are included
	ClaimError       float64           `json:"claim_error"`           // measured error rate in the rows called helps or harms
	Global           Global            `json:"global"`
	SRM              SRM               `json:"srm"`
	Reporting        Reporting         `json:"reporting"`
	PlannedTrials    PlannedTrials     `json:"looks"`          // planned trials for all lessons
	Open             *OpenSessions     `json:"open,omitempty"` // sessions that do not count yet
	Lessons          []Row             `json:"lessons"`
	Flow             Flow              `json:"flow"` // all sessions, in the experiment and excluded
}

// OpenSessions describes the tenant's open sessions. The report does not include them.
type OpenSessions struct {
	Sessions     int    `json:"sessions"`
	IsLowerBound bool   `json:"more,omitempty"` // sessions is a lower bound, possibly 0
	CloseAfter   string `json:"close_after"`    // age at which a session closes and counts

	FirstCloses time.Time         `json:"first_closes,omitzero"` // when the oldest session closes
	Inserted    int               `json:"inserted,omitempty"`    // sessions with an inserted lesson
	Matched     map[trial.Arm]int `json:"matched,omitempty"`     // sessions with a match, by arm
	// rewarded treated sessions, including open ones; set only as long as no closed session counts
	NTreated int64 `json:"n_treated,omitempty"`
	NControl int64 `json:"n_control,omitempty"` // as n_treated, for control sessions
}

// String describes the open sessions.
func (o *OpenSessions) String() string {
	bound, verb := "", "sessions are open and do not count yet."
	if o.IsLowerBound && o.Sessions == 0 {
		return "It is not known how many sessions are open, because other tenants have too many open sessions." + o.closingSentence()
	}
	if o.IsLowerBound {
		bound = "More than "
	}
	if o.Sessions == 1 {
		verb = "session is open and does not count yet."
	}
	text := fmt.Sprintf("%s%d %s", bound, o.Sessions, verb)
	if o.Inserted > 0 {
		text += fmt.Sprintf(" Sessions with an inserted lesson: %d.", o.Inserted)
	}
	text += o.closingSentence()
	if o.NTreated+o.NControl > 0 {
		text += fmt.Sprintf(" Provisional count: %d sessions with a match and a reward, %d of them control sessions.", o.NTreated+o.NControl, o.NControl)
	}
	return text
}

func (o *OpenSessions) closingSentence() string {
	age := ShortDuration(o.CloseAfter)
	if o.FirstCloses.IsZero() {
		return fmt.Sprintf(" A session counts once it is %s old (reward.close_after).", age)
	}
	return fmt.Sprintf(" The first session closes at %s and then counts (reward.close_after = %s).", o.FirstCloses.UTC().Format("2006-01-02 15:04 UTC"), age)
}

// ShortDuration shortens 24h0m0s to 24h.
func ShortDuration(text string) string {
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// MatchedArm returns the number of open sessions with a match for an arm.
func (o *OpenSessions) MatchedArm(arm string) int {
	if o == nil {
		return 0
	}
	return o.Matched[trial.Arm(arm)]
}

// DefinitionCount counts the sessions that closed under another reward definition.
type DefinitionCount struct {
	RewardDefinition string `json:"reward_definition"`
	Sessions         int64  `json:"sessions"`
}

// Global compares the treated sessions with the control sessions, among the sessions with a match.
type Global struct {
	NTreated    int64    `json:"n_treated"` // rewarded sessions
	NControl    int64    `json:"n_control"`
	Effect      *float64 `json:"effect"`
	Lo          *float64 `json:"lo"` // lower bound of the 95% interval; while effect is null, lo is -1 and hi is 1
	Hi          *float64 `json:"hi"`
	MeanTreated *float64 `json:"mean_treated"`
	MeanControl *float64 `json:"mean_control"`
	// Closed sessions with a refused request; they stay in the comparison.
	RefusedTreated int64 `json:"refused_treated"`
	RefusedControl int64 `json:"refused_control"`
	// Closed sessions with a match and a measured section in a rules file; they are not in the comparison.
	MeasuredRules int64   `json:"n_measured_rules"`
	Verdict       Verdict `json:"verdict"`
	Days          []Day   `json:"days,omitempty"`  // treated and control over time
	Bands         []Band  `json:"bands,omitempty"` // effect over time, if requested
}

// Day compares one day's treated and control sessions.
type Day struct {
	Date        string   `json:"date"` // session start day, UTC
	NTreated    int64    `json:"n_treated"`
	NControl    int64    `json:"n_control"`
	MeanTreated *float64 `json:"mean_treated"`
	MeanControl *float64 `json:"mean_control"`
	TokensAdded int64    `json:"tokens_added"` // by lessons, in sessions rewarded or not
	Treated     Spending `json:"spent_treated,omitzero"`
	Control     Spending `json:"spent_control,omitzero"`
}

// Spending counts the input tokens in the sessions for which the provider reported token counts.
type Spending struct {
	Sessions int64 `json:"sessions"`
	Input    int64 `json:"input"`  // tokens, including cached tokens
	Cached   int64 `json:"cached"` // tokens from the provider's prompt cache
}

// Add adds the counts from other sessions.
func (s *Spending) Add(o Spending) {
	s.Sessions, s.Input, s.Cached = s.Sessions+o.Sessions, s.Input+o.Input, s.Cached+o.Cached
}

// SRM is the check for a sample-ratio mismatch. It tests whether lessons are withheld as often as the assigned
// probabilities require.
type SRM struct {
	EValue float64 `json:"e_value"` // evidence that the random assignment is faulty, capped at 1e12
	Alarm  float64 `json:"alarm"`   // alarm threshold for the e-value; over all lessons and checks, at most one sound experiment in twenty ever has a false alarm
	OK     bool    `json:"ok"`
}

// Reporting is the check that lessons change neither which sessions have a reward, nor the rewards' tiers.
type Reporting struct {
	RewardedTreated int64   `json:"told_treated"`
	RewardedControl int64   `json:"told_control"`
	AssignedTreated int64   `json:"assigned_treated"` // closed sessions, rewarded or not
	AssignedControl int64   `json:"assigned_control"`
	EValue          float64 `json:"e_value"`
	Alarm           float64 `json:"alarm"` // as in SRM
	OK              bool    `json:"ok"`
}

// Row is the report on one arm, that is, a lesson with one text in one presentation.
type Row struct {
	Slug           string         `json:"slug"`
	ContentHash    string         `json:"content_hash"`
	Arm            string         `json:"arm"` // the lesson with this text and presentation
	State          string         `json:"state"`
	Matched        int64          `json:"matched"`      // closed sessions with a match
	OpenMatched    int            `json:"open_matched"` // open sessions with a match, not counted yet; 0 in a provisional report
	Picked         int64          `json:"picked"`       // closed sessions with a pick
	NInjected      int64          `json:"n_injected"`   // closed, rewarded sessions with the lesson
	NWithheld      int64          `json:"n_withheld"`   // closed, rewarded sessions with the pick withheld
	Rewarded       int64          `json:"told"`         // n_injected plus n_withheld
	Late           int64          `json:"late_rewards"` // sessions in told that had no reward at close
	MeanInjected   *float64       `json:"mean_injected"`
	MeanWithheld   *float64       `json:"mean_withheld"`
	RefusedWith    int64          `json:"refused_injected"` // closed sessions with a refused request, included in the comparison
	RefusedWithout int64          `json:"refused_withheld"`
	Effect         *float64       `json:"effect"`
	Lo             *float64       `json:"lo"` // lower bound of the 95% interval; while effect is null, lo is -1 and hi is 1
	Hi             *float64       `json:"hi"`
	Posterior      float64        `json:"posterior_mean"` // model-based
	PHelps         float64        `json:"p_helps"`        // model-based: P(effect > 0)
	LOODelta       *float64       `json:"loo_delta"`      // mean reward with the lesson minus the mean in all other sessions: not causal
	LOOGap         *float64       `json:"loo_gap"`        // loo_delta minus effect: the error in an analysis without random assignment
	Success        int64          `json:"success_count"`  // rewarded sessions with an injection, reward at least .5
	Failure        int64          `json:"failure_count"`  // rewarded sessions with an injection, reward below .5
	Better         float64        `json:"better"`         // reward above the expectation, summed over injected sessions
	Worse          float64        `json:"worse"`          // reward below the expectation, summed over injected sessions
	Caution        bool           `json:"caution"`        // the lesson is presented as a caution
	Tokens         int64          `json:"tokens"`         // per injection
	TokensTotal    int64          `json:"tokens_total"`
	Cost           float64        `json:"cost"`            // cost per injection in reward units: tokens at bandit.token_cost
	InputWith      *float64       `json:"input_injected"`  // input tokens per session, as reported by the upstream, in closed sessions
	InputWithout   *float64       `json:"input_withheld"`  // as input_injected, but for sessions with the pick withheld
	CachedWith     *float64       `json:"cached_injected"` // share of the input tokens that came from the prompt cache
	CachedChange   *float64       `json:"cached_change"`   // cached_injected minus the share with the pick withheld: causal
	Trial          string         `json:"trial,omitempty"` // the lesson's trial: "running"; "ended" after the planned evaluation; "reached" at the requested width
	PlannedTrials  []PlannedTrial `json:"looks,omitempty"` // planned trials, the latest last
	AfterTrial     string         `json:"next,omitempty"`  // what happens to the lesson after the planned trial
	Variance       float64        `json:"variance"`        // reward variance around the session's expected reward: measured, once there is enough data
	Epsilon        float64        `json:"epsilon"`         // probability of withholding the next picks
	Verdict        Verdict        `json:"verdict"`
	Advice         string         `json:"advice"`                     // next action after the verdict
	PickShare      float64        `json:"pick_share"`                 // model-based: probability of a pick in a session with a match and a free slot
	NeedsPicks     int64          `json:"needs_picks"`                // rewarded picks until a verdict is likely; 0 once there is a verdict
	NeedsUnclear   bool           `json:"needs_picks_unclear"`        // needs_picks depends so much on chance that pages show no number
	Needs3Points   int64          `json:"needs_3_points"`             // rewarded picks until the half-width is 3 points
	PerWeek        float64        `json:"picks_per_week"`             // rewarded picks, over the last four weeks
	Weeks          *float64       `json:"weeks_to_verdict"`           // weeks until needs_picks at this rate; null: no picks
	Expected       string         `json:"verdict_expected,omitempty"` // day when needs_picks is reached
	NeedsSessions  int64          `json:"needs_sessions,omitempty"`   // the tenant's rewarded sessions until verdict_expected
	Speedups       []string       `json:"sooner,omitempty"`           // ways to a faster verdict
	EHelps         float64        `json:"e_helps"`                    // largest e-value for help so far, capped at 1e12
	EHarms         float64        `json:"e_harms"`                    // largest e-value for harm so far, capped at 1e12
	WorstLo        *float64       `json:"worst_lo"`                   // invalid rows: smallest effect that the missing rewards permit
	WorstHi        *float64       `json:"worst_hi"`                   // invalid rows: largest effect that the missing rewards permit
	SRM            SRM            `json:"srm"`                        // check on this row's random assignment
	Reporting      SRM            `json:"reporting"`                  // check whether the lesson changes which sessions have a reward, or the reward's tier
	RetireReason   string         `json:"retire,omitempty"`           // why the lesson might be retired
	Note           string         `json:"note,omitempty"`             // limits on the verdict
	WhatIf         *WhatIf        `json:"what_if,omitempty"`          // projection for another probability of withholding, if requested
	Days           []Band         `json:"days,omitempty"`             // effect over time, if requested
	Explanation    *Explanation   `json:"explain,omitempty"`          // how the row is derived, if requested
	Outcomes       []Outcome      `json:"outcomes,omitempty"`
	ExplainedShare *float64       `json:"explained"`      // share of z's variance explained by facts known before the assignment; null if effect is null
	PicksSaved     int64          `json:"picks_saved"`    // additional picks needed for the same interval without these facts
	LateReporting  SRM            `json:"late_reporting"` // check whether the lesson changes which sessions get a reward after close
	AllSessions    *AllSessions   `json:"all_sessions,omitempty"`
	Models         Models         `json:"models"`
	Guardrail      string         `json:"guardrail,omitempty"` // outcomes in report.guardrails that rose: dearer, more errors
	Opinions       *Opinions      `json:"opinions,omitempty"`  // judges' opinions, not measured; nil if none
}

// Band is the effect as of one day.
type Band struct {
	Date   string  `json:"date"`
	Effect float64 `json:"effect"`
	Lo     float64 `json:"lo"`
	Hi     float64 `json:"hi"`
}

// WhatIf is what another probability of withholding would change in a row.
type WhatIf struct {
	Epsilon      float64 `json:"epsilon"`
	HalfWidth    float64 `json:"half_width"`     // after the current number of picks (at least 50)
	NeedsPicks   int64   `json:"needs_picks"`    // further picks until a verdict
	Needs3Points int64   `json:"needs_3_points"` // further picks until the half-width is 3 points
}

// Explanation shows how a row is derived. It has each number behind the verdict, so that the verdict can be computed by
// hand.
type Explanation struct {
	Propensities     []Propensity `json:"propensities"`
	N                float64      `json:"n"`               // randomly assigned rewarded picks
	SumZ             float64      `json:"sum_z"`           // z = (y - c) (A/(1-eps) - (1-A)/eps)
	SumZZ            float64      `json:"sum_zz"`          // sum of z squared
	Mean             *float64     `json:"mean_z"`          // sum_z / n: the effect
	Variance         *float64     `json:"s2"`              // sum_zz / n - effect^2
	StandardError    *float64     `json:"error"`           // standard error: sqrt(s2 / n)
	ZScore           *float64     `json:"z_score"`         // effect / error
	HalfWidth        *float64     `json:"half"`            // half-width of the interval valid at any time
	PlannedHalfWidth *float64     `json:"one_look"`        // half-width of an interval for one evaluation planned beforehand
	P                *float64     `json:"p"`               // level at which the interval valid at any time would exclude 0
	SmallestP        float64      `json:"p_smallest"`      // smallest p since each arm had enough rewarded picks for the verdict helps or harms; 1: none
	ProofBar         float64      `json:"proof_bar"`       // p at which the row is certain to be proven
	ClaimBar         float64      `json:"claim_bar"`       // p at which the row is certain to be called helps or harms
	Difference       *float64     `json:"mean_difference"` // difference between the plain means: injected minus withheld
}

// Propensity holds the sessions with one withholding probability for the lesson.
type Propensity struct {
	Epsilon          float64  `json:"epsilon"`  // withholding probability
	Injected         int64    `json:"injected"` // closed sessions
	Withheld         int64    `json:"withheld"` // closed sessions
	RewardedInjected int64    `json:"told_injected"`
	RewardedWithheld int64    `json:"told_withheld"`
	MeanInjected     *float64 `json:"mean_injected"`
	MeanWithheld     *float64 `json:"mean_withheld"`
	EValue           float64  `json:"e_value"` // e-value against random assignment in these sessions alone
}

// Opinions counts the judges' opinions about a lesson in sessions with the lesson. Opinions are not measurements, so
// they are added only to a finished report.
type Opinions struct {
	Followed     int64 `json:"followed"`
	Ignored      int64 `json:"ignored"`
	Irrelevant   int64 `json:"irrelevant"`
	Contradicted int64 `json:"contradicted"`
}

// PlannedTrials describes all planned trials, and the correction for multiple tests. The level is for all planned
// trials together: at most one in twenty rows with the verdict "proven in trial" may be wrong.
type PlannedTrials struct {
	Planned   int     `json:"planned"` // trials whose number of picks was set beforehand, including running and abandoned trials
	Evaluated int     `json:"taken"`   // evaluated trials
	Proven    int     `json:"proven"`  // trials with p at most bar
	Level     float64 `json:"level"`   // false discovery rate over all planned trials
	Bar       float64 `json:"bar"`     // largest p that passes (Benjamini and Hochberg over all planned trials); 0 if none
}

// PlannedTrial is one of a row's planned trials. The evaluation uses the planned number of picks in the earliest
// sessions, and is final. Before the evaluation the numbers cover the picks so far and support no conclusion.
type PlannedTrial struct {
	Began     time.Time `json:"began"`
	Outcome   string    `json:"outcome,omitempty"` // measured outcome; empty: the reward
	Planned   int64     `json:"planned"`           // planned number of rewarded picks, or, in a trial on an outcome, of picks in closed sessions
	Rewarded  int64     `json:"told"`              // rewarded (or closed) picks so far
	Evaluated bool      `json:"taken"`             // the evaluation is final
	Last      time.Time `json:"last,omitzero"`     // start of the last session in the sums
	NInjected int64     `json:"n_injected"`        // picks in the sums
	NWithheld int64     `json:"n_withheld"`
	Effect    *float64  `json:"effect"`
	Lo        *float64  `json:"lo"` // 95% interval for one evaluation planned beforehand
	Hi        *float64  `json:"hi"`
	P         *float64  `json:"p"` // two-sided; null until the evaluation
	Verdict   Verdict   `json:"verdict,omitempty"`
	arm       trial.Arm
	name      string // trial name
}
