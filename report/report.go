package report

import (
	"encoding/json"
	"fmt"
	"time"

	"precept/trial"
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

// Input is what a report is made of.
type Input struct {
	Now              time.Time
	Tenant           string
	RewardDefinition string
	Elsewhere        []Counted
	Counters         *trial.Counters // nil reads as empty; for a provisional report a Clone to which open sessions were added
	Chooser          Chooser         // nil: nobody chooses
	Policy           Policy
	Lessons          []Lesson      // in force or not; arms in the counters that are not listed get a row when they were tested
	Window           time.Duration // effects of sessions that started in it; 0 all
	Provisional      bool
	WhatIf           float64 // an epsilon between 0 and 1 to project for; 0 none
	Bands            bool    // with the effect over time
	Explain          string  // a slug whose rows are to say how they came about; "" none
}

// Policy is how lessons are chosen when the report is made.
type Policy struct {
	Objective string // "" is uplift
	Holdout   string // "" is prove
	Control   float64
	TokenCost float64 // of one token, in units of reward
	// ProbeShare is the share of the sessions in which a lesson is tried that is expected to harm.
	ProbeShare float64
}

// Lesson is what the report needs to know of a lesson.
type Lesson struct {
	Slug        string
	Arm         trial.Arm
	ContentHash string // "" takes the arm's
	State       string
	Outcome     string // success | failure | mixed
	Caution     bool   // it is presented as one
	Confidence  float64
	Tokens      int
	Epsilon     float64   // of a trial; 0 by rule
	Until       float64   // the half-width at which the trial ends; 0: not by width
	Trial       string    // the name of a planned trial (trial.Name); "" none
	Parent      trial.Arm // the arm it is heir of; "" none
	Expired     bool
	Superseded  bool
}

// Unshown bounds are written as -1 and 1: the widest that an effect on a reward between 0 and 1 can
// have, and true of every lesson. A null would do for people, but a client that decodes numbers
// reads null as 0, and 0..0 claims to know exactly that there is no effect. The effect itself stays
// null: there is no harmless number for it.
const unshownLo, unshownHi = -1.0, 1.0

// MarshalJSON writes bounds that may not be shown as -1 and 1.
func (r Row) MarshalJSON() ([]byte, error) {
	type plain Row
	r.Lo, r.Hi = written(r.Lo, r.Hi)
	return json.Marshal(plain(r))
}

// MarshalJSON writes bounds that may not be shown as -1 and 1.
func (g Global) MarshalJSON() ([]byte, error) {
	type plain Global
	g.Lo, g.Hi = written(g.Lo, g.Hi)
	return json.Marshal(plain(g))
}

func written(lo, hi *float64) (l, h *float64) {
	if lo == nil || hi == nil {
		return new(unshownLo), new(unshownHi)
	}
	return lo, hi
}

// UnmarshalJSON reads what MarshalJSON wrote: bounds without an effect are none.
func (r *Row) UnmarshalJSON(b []byte) error {
	type plain Row
	if err := json.Unmarshal(b, (*plain)(r)); err != nil {
		return fmt.Errorf("read a row of the report: %w", err)
	}
	if r.Effect == nil {
		r.Lo, r.Hi = nil, nil
	}
	return nil
}

// UnmarshalJSON reads what MarshalJSON wrote: bounds without an effect are none.
func (g *Global) UnmarshalJSON(b []byte) error {
	type plain Global
	if err := json.Unmarshal(b, (*plain)(g)); err != nil {
		return fmt.Errorf("read the report's row of all lessons: %w", err)
	}
	if g.Effect == nil {
		g.Lo, g.Hi = nil, nil
	}
	return nil
}
