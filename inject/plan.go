package inject

import (
	"slices"
	"time"

	"precept/bandit"
	"precept/bandit/trial"
	"precept/detect"
	"precept/inject/lesson"
	"precept/inject/rules"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/internal/wire"
)

// Injector plans insertions. An Injector is immutable and safe for concurrent use.
type Injector struct {
	cfg Config
}

// New returns an Injector for a validated configuration.
func New(cfg Config) *Injector {
	if cfg.BudgetBytes <= 0 {
		cfg.BudgetBytes = defaultBudget
	}
	if cfg.Style == "" {
		cfg.Style = Advice
	}
	return &Injector{cfg: cfg}
}

// Config returns the configuration.
func (in *Injector) Config() Config { return in.cfg }

// Reasons for a plan without insertions.
const (
	SkipOff       = "off"        // the request has the header Precept-Inject: off
	SkipRefused   = "refused"    // the upstream refused a changed request of this session
	SkipExcluded  = "excluded"   // the session is outside of the experiment
	SkipControl   = "control"    // the session is a control session
	SkipNoMatch   = "no_match"   // no lesson has matched in this session yet
	SkipWithheld  = "withheld"   // all picks were withheld
	SkipNotPicked = "not_picked" // the chooser picked none of the matches, because of their expected benefit or the budget of the session
	SkipEarlier   = "earlier"    // the provider's history contains the earlier blocks, or the agent removed their messages
)

// Plan is the change of one request. A Plan holds no pointer into the request.
type Plan struct {
	Kind       session.TurnKind
	Edits      []wire.Edit // insertions, for wire.Request.Splice; edits at one position keep their order
	Cuts       []wire.Cut  // deletions of sections of rules files whose coin decided to cut
	SkipReason string      // one of the Skip constants if Edits is empty, otherwise ""

	Matched       []string        // slugs of the lessons that matched in this turn for the first time in the session
	Injected      []string        // slugs of this turn's picks that are inserted
	Withheld      []string        // slugs of this turn's picks that are withheld
	Lessons       []sample.Lesson // states of the lessons that matched in this turn, stored with the exchange
	Picks         []trial.Pick    // this turn's picks, with the results of their coins
	CutSlugs      []string        // arm slugs of the sections in Cuts
	Loops         int             // number of new loops in this turn, with or without an inserted warning
	LimitExceeded bool            // the matching stopped at its work limit, or the head has more than rules.MaxHead bytes
	Answered      bool            // the plan inserts answers to /lesson commands, or the description of these commands
}

// Changes reports whether the plan changes the request.
func (p *Plan) Changes() bool { return len(p.Edits)+len(p.Cuts) > 0 }

// Beliefs is the chooser of a tenant.
type Beliefs interface {
	bandit.Beliefs
	armEvidence
	// NewMeasurement returns the measurement of a new pick of an arm. The measurement is derived from the outcomes of
	// closed sessions. baseline holds the sums of the session at the pick.
	NewMeasurement(arm trial.Arm, eps float64, outcomes trial.OutcomeSet, baseline trial.Totals) trial.Measurement
}

// Input holds the data of one turn for Plan and Replay, apart from the session's record.
type Input struct {
	Request        *wire.Request
	Claim          session.Claim
	Book           *lesson.Book
	Beliefs        Beliefs
	Results        *detect.Results      // cached classifications of the turn's tool results; nil if there are none
	Unit           *session.Record      // run of the session; nil or the session itself for a session outside of a run. Lock order: the session, then the unit.
	MeaningMatches []lesson.Resemblance // lessons that match earlier words of the session by meaning
	Rules          *rules.Registry      // sections under measurement; nil if none
	Now            time.Time

	NoLearning    bool // the session must not be learned from, so no coin of a section is flipped
	ReadsCommands bool // the reply is searched for /lesson commands
}

// Plan decides the insertions and deletions in the main request of a turn, and starts the turn in the record. The
// caller holds the lock of the record.
func (in *Injector) Plan(rec *session.Record, input Input) Plan {
	p := Plan{Kind: rec.Begin(input.Request, input.Now)}
	w := work{in: in, rec: rec, input: input, plan: &p}
	w.freezeFacts()
	w.observe()
	if p.SkipReason = w.passThroughReason(); p.SkipReason != "" {
		if p.Kind == session.NewTurn {
			rec.SetLastTurn(input.Request)
		}
		return p
	}
	w.cutSections()
	w.reinsertBlocks()
	if p.Kind == session.NewTurn {
		w.insertAnswers()
		if !w.isExcluded() { // no new coins for an excluded session
			if !in.cfg.NoLoopDetection {
				w.insertWarnings()
			}
			w.insertLessons()
		}
		w.reinsertCompacted()
		rec.SetLastTurn(input.Request)
	}
	w.setSkipReason()
	return p
}

// passThroughReason returns the reason why the request stays unchanged. It returns "" if Plan may insert earlier or new
// blocks. An excluded session keeps its earlier blocks and gets no new lesson.
func (w *work) passThroughReason() string {
	switch {
	case w.rec.State.PassThrough:
		return SkipRefused
	case w.isExcludedWithoutBlocks() && !w.hasCutSection():
		return SkipExcluded
	case w.input.Claim.InjectOff:
		return SkipOff
	}
	return ""
}

// isExcludedWithoutBlocks reports whether the session is excluded from the experiment and has no blocks.
func (w *work) isExcludedWithoutBlocks() bool {
	return len(w.rec.Lessons.Blocks) == 0 && w.isExcluded()
}

// hasCutSection reports whether a coin of the unit cuts a section.
func (w *work) hasCutSection() (found bool) {
	w.withUnitRecord(func(u *session.Record) {
		found = slices.ContainsFunc(u.Assignment.Picks, func(p trial.Pick) bool { return p.Arm.IsRule() && !p.Injected })
	})
	return found
}

// freezeFacts stores the category, the model, the number of tools and the day of a session before its first coin. A run
// gets the facts of its first session.
func (w *work) freezeFacts() {
	w.withUnitRecord(func(u *session.Record) {
		isFirst := w.rec.Thread.Turns == 1 && w.plan.Kind == session.NewTurn
		if u != w.rec {
			isFirst = u.Assignment.Category == "" && !u.Assignment.Decided
		}
		if isFirst {
			u.Assignment.Category = sessionCategory(w.rec, w.input.Request)
			u.Assignment.Model = session.NormalizeName(w.input.Request.Model)
			u.Assignment.Tools = len(w.input.Request.Tools)
			u.Assignment.Day, u.Assignment.At = trial.Day(u.Identity.Started), u.Identity.Started.Unix()
		}
	})
}

// withUnitRecord calls fn with the record that holds the session's coins, which is the record of the unit or, without a
// unit, the session's own record. The record is locked during the call.
func (w *work) withUnitRecord(fn func(u *session.Record)) {
	if w.input.Unit == nil || w.input.Unit == w.rec {
		fn(w.rec)
		return
	}
	w.input.Unit.Lock()
	defer w.input.Unit.Unlock()
	fn(w.input.Unit)
}

// isExcluded reports whether the session gets no new lessons, because the session or its unit is outside of the
// experiment. A doubted session is outside of the experiment, too, but still gets lessons. Otherwise an agent would
// lose its lessons because another agent sends an identical history.
func (w *work) isExcluded() (excluded bool) {
	w.withUnitRecord(func(u *session.Record) { excluded = u.Assignment.Excluded })
	return (excluded || w.rec.Assignment.Excluded) && !w.rec.State.Ambiguous
}

// RecordRefusal records that the upstream accepted the request only without the insertions. The session gets no further
// insertions, but stays in the experiment with its arms and its reward. Only treated sessions can be refused, so
// leaving them out would bias the comparison (intention to treat).
func (in *Injector) RecordRefusal(rec *session.Record) {
	rec.State.PassThrough, rec.State.Dirty = true, true
	rec.Assignment.Refused = true
	rec.Lessons.Blocks = nil
}

// RecordRefusedCuts records that the upstream refused a request with cut sections as its only changes, and accepted the
// original. The session keeps its lessons and its arms, and no further section is cut.
func (in *Injector) RecordRefusedCuts(rec *session.Record) {
	rec.State.NoDeletions, rec.State.Dirty = true, true
	rec.Assignment.CutRefused = true
}

// work is the state of one call of Plan or Replay.
type work struct {
	in            *Injector
	rec           *session.Record
	input         Input
	plan          *Plan
	insertedSlugs map[string]bool // slugs of the lessons in the blocks of this request
	loops         []loop          // loops in the new content; findLoops adds them

	historyMoved *bool // whether the messages of the previous turn have other indices in this request; nil means not checked yet
}

// addBlock inserts a block into this request and adds the block to the record. reinsertBlocks inserts the recorded
// blocks into every later request.
func (w *work) addBlock(at spot, b session.Block) {
	b.Anchor, b.Turn, b.KeptByProvider = at.anchor, w.rec.Thread.Turns, w.input.Request.Delta
	w.rec.Lessons.Blocks = append(w.rec.Lessons.Blocks, b)
	w.insert(at.item, at.block, &b)
}

func (w *work) insert(item, block int, b *session.Block) {
	w.plan.Edits = append(w.plan.Edits, wire.Edit{Item: item, Block: block, Text: b.Text})
	for _, s := range b.Slugs {
		if w.insertedSlugs == nil {
			w.insertedSlugs = make(map[string]bool)
		}
		w.insertedSlugs[s] = true
	}
}

// setSkipReason sets Plan.SkipReason if the plan has no insertions.
func (w *work) setSkipReason() {
	switch {
	case len(w.plan.Edits) > 0:
	case w.isExcludedWithoutBlocks():
		w.plan.SkipReason = SkipExcluded
	default:
		w.withUnitRecord(func(u *session.Record) { w.plan.SkipReason = w.skipReason(u) })
	}
}

// skipReason returns the reason why the request gets no block. u is the record that holds the session's coins.
func (w *work) skipReason(u *session.Record) string {
	a := &u.Assignment
	if a.Control && a.Decided {
		return SkipControl
	}
	slugs := w.rec.Lessons.Matched
	if w.rec.Lessons.Loops.Count > 0 || u == w.rec {
		slugs = append(slices.Clone(slugs), trial.LoopArm.Slug())
	}
	injected, withheld := false, false
	for _, slug := range slugs {
		if pick, ok := a.Pick(slug); ok {
			injected, withheld = injected || pick.Injected, withheld || !pick.Injected
		}
	}
	switch {
	case withheld:
		return SkipWithheld
	case injected:
		return SkipEarlier
	case len(w.rec.Lessons.Matched) == 0:
		return SkipNoMatch
	}
	return SkipNotPicked
}
