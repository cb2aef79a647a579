package report

import (
	"time"

	"precept/bandit/trial"
)

// Verdict is what may be said of a lesson today.
type Verdict string

// The verdicts, in the order in which they are tried; the first that holds is given.
const (
	Invalid     Verdict = "invalid"                // the coins or the reporting are off: nothing can be said
	ProvenHelps Verdict = "proven helps"           // survives the correction for all lessons ever tested
	ProvenHarms Verdict = "proven harms"           //
	TrialHelps  Verdict = "proven in trial: helps" // its planned look survives the correction for all planned looks
	TrialHarms  Verdict = "proven in trial: harms" //
	Helps       Verdict = "helps"                  // the interval excludes 0 or once did, also after allowing for the other lessons; one such row in ten may be wrong
	Harms       Verdict = "harms"                  //
	NoEffect    Verdict = "no material effect"     // the interval lies within 3 points of 0
	LikelyHelps Verdict = "likely helps"           // the chooser's model says so; not proof
	LikelyHarms Verdict = "likely harms"           //
	Benched     Verdict = "benched"                // the chooser expects harm and only probes it
	Unproven    Verdict = "unproven"               // needs more picks
)

// Report is the answer of GET /api/report. Effects are in units of reward: 0.05 is 5 points.
type Report struct {
	GeneratedAt      time.Time `json:"generated_at"`
	RewardDefinition string    `json:"reward_definition"`
	Elsewhere        []Counted `json:"other_definitions,omitempty"` // what is not in these numbers
	Objective        string    `json:"objective"`                   // how lessons were chosen when the report was made; effects are of the holdout whatever it is
	Holdout          string    `json:"holdout"`                     // how long lessons are withheld as often as bandit.epsilon says
	Tenant           string    `json:"tenant,omitempty"`
	Window           string    `json:"window,omitempty"`      // effects count sessions that started in it; "" all
	Provisional      bool      `json:"provisional,omitempty"` // sessions that have not closed are counted
	ClaimError       float64   `json:"claim_error"`           // of the rows called helps or harms so many may be wrong (measured)
	Global           Global    `json:"global"`
	SRM              SRM       `json:"srm"`
	Reporting        Reporting `json:"reporting"`
	Looks            Looks     `json:"looks"` // planned ones, of all lessons
	Lessons          []Row     `json:"lessons"`
}

// Counted are sessions that were closed, and counted, under another definition of reward.
type Counted struct {
	RewardDefinition string `json:"reward_definition"`
	Sessions         int64  `json:"sessions"`
}

// Global compares the sessions that may get lessons with the control ones, among those in which a
// lesson matched.
type Global struct {
	NTreated    int64    `json:"n_treated"` // told sessions
	NControl    int64    `json:"n_control"`
	Effect      *float64 `json:"effect"`
	Lo          *float64 `json:"lo"` // nil before it may be shown; see MarshalJSON
	Hi          *float64 `json:"hi"`
	MeanTreated *float64 `json:"mean_treated"`
	MeanControl *float64 `json:"mean_control"`
	// Closed sessions of which the upstream took the requests only unchanged; they stay in the
	// comparison.
	RefusedTreated int64   `json:"refused_treated"`
	RefusedControl int64   `json:"refused_control"`
	Verdict        Verdict `json:"verdict"`
	Days           []Day   `json:"days,omitempty"`  // treated and control over time
	Bands          []Band  `json:"bands,omitempty"` // effect over time, when Input.Bands
}

// Day is the two arms of one day.
type Day struct {
	Date        string   `json:"date"` // of the sessions' start, UTC
	NTreated    int64    `json:"n_treated"`
	NControl    int64    `json:"n_control"`
	MeanTreated *float64 `json:"mean_treated"`
	MeanControl *float64 `json:"mean_control"`
	TokensAdded int64    `json:"tokens_added"` // by lessons, in sessions told or not
	Treated     Spent    `json:"spent_treated,omitzero"`
	Control     Spent    `json:"spent_control,omitzero"`
}

// Spent is what sessions cost of which the upstream told it.
type Spent struct {
	Sessions int64 `json:"sessions"`
	Input    int64 `json:"input"`  // tokens, cached ones among them
	Cached   int64 `json:"cached"` // tokens that the provider's prompt cache had
}

// Add adds what other sessions cost.
func (s *Spent) Add(o Spent) {
	s.Sessions, s.Input, s.Cached = s.Sessions+o.Sessions, s.Input+o.Input, s.Cached+o.Cached
}

// SRM is the check for a sample-ratio mismatch: do the coins fall as often as they were meant to.
type SRM struct {
	EValue float64 `json:"e_value"` // evidence against, capped at 1e12
	Alarm  float64 `json:"alarm"`   // from which e-value on it is a failure: over all lessons and checks, one list in twenty ever has one by chance
	OK     bool    `json:"ok"`
}

// Reporting is the check that having lessons does not change who reports an outcome, or how.
type Reporting struct {
	ToldTreated     int64   `json:"told_treated"`
	ToldControl     int64   `json:"told_control"`
	AssignedTreated int64   `json:"assigned_treated"` // closed sessions, told or not
	AssignedControl int64   `json:"assigned_control"`
	EValue          float64 `json:"e_value"`
	Alarm           float64 `json:"alarm"` // as in SRM
	OK              bool    `json:"ok"`
}

// Row is one arm: a lesson in one text.
type Row struct {
	Outlook
	Slug           string       `json:"slug"`
	ContentHash    string       `json:"content_hash"`
	Arm            string       `json:"arm"` // what is measured: the lesson in this text, presented in this way
	State          string       `json:"state"`
	Matched        int64        `json:"matched"`    // closed sessions
	Picked         int64        `json:"picked"`     //
	NInjected      int64        `json:"n_injected"` // closed, told sessions
	NWithheld      int64        `json:"n_withheld"` //
	Told           int64        `json:"told"`       // their sum
	MeanInjected   *float64     `json:"mean_injected"`
	MeanWithheld   *float64     `json:"mean_withheld"`
	RefusedWith    int64        `json:"refused_injected"` // closed sessions whose changed request the upstream refused; they stay in
	RefusedWithout int64        `json:"refused_withheld"`
	Effect         *float64     `json:"effect"`
	Lo             *float64     `json:"lo"` // nil before it may be shown; see MarshalJSON
	Hi             *float64     `json:"hi"`
	Posterior      float64      `json:"posterior_mean"` // model-based
	PHelps         float64      `json:"p_helps"`        // model-based: P(effect > 0)
	LOODelta       *float64     `json:"loo_delta"`      // observational: sessions with it less all others
	LOOGap         *float64     `json:"loo_gap"`        // loo_delta less effect: what observation alone would have got wrong
	Success        int64        `json:"success_count"`  // told sessions in which it was injected, reward at least .5
	Failure        int64        `json:"failure_count"`  // and below
	Better         float64      `json:"better"`         // sums of reward above and below expectation in them
	Worse          float64      `json:"worse"`
	Caution        bool         `json:"caution"` // present it as a caution
	Tokens         int64        `json:"tokens"`  // per injection
	TokensTotal    int64        `json:"tokens_total"`
	Cost           float64      `json:"cost"`            // of an injection, in units of reward: tokens at bandit.token_cost
	InputWith      *float64     `json:"input_injected"`  // input tokens a session, as the upstream tells them, in closed sessions
	InputWithout   *float64     `json:"input_withheld"`  //
	CachedWith     *float64     `json:"cached_injected"` // share of them that its prompt cache had
	CachedChange   *float64     `json:"cached_change"`   // that share less the one where it was withheld: causal, by the coins
	Trial          string       `json:"trial,omitempty"` // of a lesson in trial: "running"; "ended" after its planned look; "reached": it is measured as closely as was asked
	Looks          []Look       `json:"looks,omitempty"` // its planned trials, the latest last
	Next           string       `json:"next,omitempty"`  // what becomes of a lesson whose planned trial has ended
	Variance       float64      `json:"variance"`        // of a reward around what was expected of its session: measured, once there is enough
	Epsilon        float64      `json:"epsilon"`         // that its next picks will have
	Verdict        Verdict      `json:"verdict"`
	NeedsPicks     int64        `json:"needs_picks"`        // told picks until a verdict is likely; 0 when there is one
	Needs3Points   int64        `json:"needs_3_points"`     // told picks until the half-width is 3 points
	PerWeek        float64      `json:"picks_per_week"`     // told picks, over the last four weeks
	Weeks          *float64     `json:"weeks_to_verdict"`   // needs_picks at that rate; null: no picks come in
	EHelps         float64      `json:"e_helps"`            // running maxima of the e-values, capped at 1e12
	EHarms         float64      `json:"e_harms"`            //
	WorstLo        *float64     `json:"worst_lo"`           // invalid rows: the bounds if every untold session were as bad,
	WorstHi        *float64     `json:"worst_hi"`           // or as good, as it can be
	SRM            SRM          `json:"srm"`                //
	Reporting      SRM          `json:"reporting"`          // the same check on who reports, in all and by tier
	Retire         string       `json:"retire,omitempty"`   // why an operator may want to retire it
	Note           string       `json:"note,omitempty"`     // what the verdict does not say
	WhatIf         *WhatIf      `json:"what_if,omitempty"`  // asked for by Input.WhatIf
	Days           []Band       `json:"days,omitempty"`     // effect over time, when Input.Bands
	Explain        *Explanation `json:"explain,omitempty"`  // asked for by Input.Explain
	Opinions       *Opinions    `json:"opinions,omitempty"` // of judges, not measured and in no other field; nil: none (Annotate)
}

// Band is the effect as it stood at the end of a day.
type Band struct {
	Date   string  `json:"date"`
	Effect float64 `json:"effect"`
	Lo     float64 `json:"lo"`
	Hi     float64 `json:"hi"`
}

// WhatIf is what another holdout would do to a row.
type WhatIf struct {
	Epsilon      float64 `json:"epsilon"`
	HalfWidth    float64 `json:"half_width"`     // after as many picks as there are now (at least 50)
	NeedsPicks   int64   `json:"needs_picks"`    // more picks for a verdict
	Needs3Points int64   `json:"needs_3_points"` // more picks until the half-width is 3 points
}

// Outlook is when a row's verdict is to be expected.
type Outlook struct {
	Expected      string   `json:"verdict_expected,omitempty"` // the day on which needs_picks have come in
	NeedsSessions int64    `json:"needs_sessions,omitempty"`   // told sessions of the tenant until then
	Sooner        []string `json:"sooner,omitempty"`           // what would bring it sooner
}

// Explanation is how a row came about: each number that its verdict rests on, so that it can be
// worked out by hand.
type Explanation struct {
	Propensities []Propensity `json:"propensities"`
	N            float64      `json:"n"`       // told picks for which a coin was flipped
	SumZ         float64      `json:"sum_z"`   // z = (y - c) (A/(1-eps) - (1-A)/eps)
	SumZZ        float64      `json:"sum_zz"`  //
	Mean         *float64     `json:"mean_z"`  // sum_z / n: the effect
	Variance     *float64     `json:"s2"`      // sum_zz / n - effect^2
	Error        *float64     `json:"error"`   // standard error: sqrt(s2 / n)
	Score        *float64     `json:"z_score"` // effect / error
	Half         *float64     `json:"half"`    // of the interval that may be looked at always
	OneLook      *float64     `json:"one_look"`
	P            *float64     `json:"p"`               // at which level that interval would exclude 0
	Smallest     float64      `json:"p_smallest"`      // of all such levels so far, with enough told picks in each arm for a claim; 1: none
	ProofBar     float64      `json:"proof_bar"`       // at which p it is sure to be proven
	ClaimBar     float64      `json:"claim_bar"`       // the same of helps and harms
	Difference   *float64     `json:"mean_difference"` // of the plain means: injected less withheld
}

// Propensity is one chance of being withheld, with the sessions drawn at it.
type Propensity struct {
	Epsilon      float64  `json:"epsilon"`
	Injected     int64    `json:"injected"` // closed
	Withheld     int64    `json:"withheld"`
	ToldInjected int64    `json:"told_injected"`
	ToldWithheld int64    `json:"told_withheld"`
	MeanInjected *float64 `json:"mean_injected"`
	MeanWithheld *float64 `json:"mean_withheld"`
	EValue       float64  `json:"e_value"` // of these coins alone
}

// Opinions is what judges thought became of a lesson in the sessions in which it was in force,
// summed. It is nobody's measurement: a report is built without it, and Annotate puts it beside the
// finished rows.
type Opinions struct {
	Followed     int64 `json:"followed"`
	Ignored      int64 `json:"ignored"`
	Irrelevant   int64 `json:"irrelevant"`
	Contradicted int64 `json:"contradicted"`
}

// Looks says how many planned looks stand behind the word "proven in trial". Each of them is a test
// of its own, so the level is one of the whole list: of the rows called so at most one in twenty
// may be wrong.
type Looks struct {
	Planned int     `json:"planned"` // trials with a number of picks that was set beforehand, also those that run or were given up
	Taken   int     `json:"taken"`
	Proven  int     `json:"proven"`
	Level   float64 `json:"level"` // of the list
	Bar     float64 `json:"bar"`   // up to which p a look passes (Benjamini and Hochberg over all planned looks); 0: none does
}

// Look is a planned trial of a row. Taken, it stands at the first Planned told picks in the order
// in which their sessions began, and stays. Not taken, its numbers are of the picks so far, and
// count for nothing.
type Look struct {
	Began     time.Time `json:"began"`
	Planned   int64     `json:"planned"` // told picks
	Told      int64     `json:"told"`    // so far, of closed sessions
	Taken     bool      `json:"taken"`
	Last      time.Time `json:"last,omitzero"` // when the last session that counts began
	NInjected int64     `json:"n_injected"`    // of the picks that count
	NWithheld int64     `json:"n_withheld"`
	Effect    *float64  `json:"effect"`
	Lo        *float64  `json:"lo"` // 95%, for one look at a number of picks that was set beforehand
	Hi        *float64  `json:"hi"`
	P         *float64  `json:"p"` // two-sided; null until the look is taken
	Verdict   Verdict   `json:"verdict,omitempty"`
	arm       trial.Arm
	name      string // of its trial
}
