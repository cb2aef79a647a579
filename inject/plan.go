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
	SkipOff       = "off"        // the request has the Precept-Inject: off header
	SkipRefused   = "refused"    // the upstream refused a changed request in this session
	SkipExcluded  = "excluded"   // the session is outside the experiment
	SkipControl   = "control"    // the session is in the control group, which gets no lessons
	SkipNoMatch   = "no_match"   // no lesson has matched yet
	SkipWithheld  = "withheld"   // a pick was withheld at random
	SkipNotPicked = "not_picked" // nothing was picked: no lesson was expected to help, or none fitted into the budget
	SkipEarlier   = "earlier"    // the picks are in earlier blocks, which the provider has or the agent has removed
)

// Plan is the change to one request. It has no pointers into the request.
type Plan struct {
	Kind       session.TurnKind
	Edits      []wire.Edit // insertions; edits at one position stay in order
	Cuts       []wire.Cut  // deletions of measured rules sections
	SkipReason string      // a Skip constant if Edits is empty, otherwise ""

	Matched       []string // slugs that matched for the first time in the session
	Injected      []string
	Withheld      []string
	Lessons       []sample.Lesson // this turn's matches with their states; stored with the exchange
	Picks         []trial.Pick    // this turn's picks and random decisions
	CutSlugs      []string        // the sections that Cuts delete
	Loops         int             // new loops, with or without a warning
	LimitExceeded bool            // matching reached the work limit, or the head is longer than rules.MaxHead
	Answered      bool            // the plan inserts answers to /lesson commands, or a description of the commands
}

// Changes reports whether the plan changes the request.
func (p *Plan) Changes() bool { return len(p.Edits)+len(p.Cuts) > 0 }

// Beliefs is a tenant's chooser, which has each lesson's measured results.
type Beliefs interface {
	bandit.Beliefs
	armEvidence
	// NewMeasurement starts measuring a new pick. baseline holds the session's outcome sums at the pick.
	NewMeasurement(arm trial.Arm, eps float64, outcomes trial.OutcomeSet, baseline trial.Totals) trial.Measurement
}

// Input holds the data about one turn that Plan and Replay need in addition to the session's record. Lock the session's
// record before Unit.
type Input struct {
	Request        *wire.Request
	Claim          session.Claim
	Book           *lesson.Book
	Beliefs        Beliefs
	Results        *detect.Results      // cached tool result classifications; may be nil
	Unit           *session.Record      // record of the run; nil or the session's own record if there is no run
	MeaningMatches []lesson.Resemblance // lessons that match the session's earlier words by meaning
	Rules          *rules.Registry      // sections under measurement; may be nil
	Now            time.Time

	NoLearning    bool // learning is off for the session, so no section is measured
	ReadsCommands bool // the reply is searched for /lesson commands
}

// Plan decides how a turn's request is changed, and records the start of the turn. The caller holds the record's lock.
func (in *Injector) Plan(rec *session.Record, input Input) Plan {
	p := Plan{Kind: rec.Begin(input.Request, input.Now)}
	w := work{injector: in, rec: rec, input: input, plan: &p}
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
		if !w.isExcluded() { // an excluded session gets no new picks
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

// passThroughReason returns why the request stays unchanged, or "". An excluded session keeps earlier blocks.
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

func (w *work) isExcludedWithoutBlocks() bool {
	return len(w.rec.Lessons.Blocks) == 0 && w.isExcluded()
}

func (w *work) hasCutSection() (found bool) {
	w.withUnitRecord(func(u *session.Record) {
		found = slices.ContainsFunc(u.Assignment.Picks, func(p trial.Pick) bool { return p.Arm.IsRule() && !p.Injected })
	})
	return found
}

// freezeFacts stores the session's category, model, tools and start before the first random decision, so that no lesson
// can influence these facts. A run gets the facts of its first session.
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
			u.Assignment.Day, u.Assignment.StartUnix = trial.Day(u.Identity.Started), u.Identity.Started.Unix()
		}
	})
}

// withUnitRecord calls fn with the unit's locked record. Outside a run, that is the session's own record.
func (w *work) withUnitRecord(fn func(u *session.Record)) {
	if w.input.Unit == nil || w.input.Unit == w.rec {
		fn(w.rec)
		return
	}
	w.input.Unit.Lock()
	defer w.input.Unit.Unlock()
	fn(w.input.Unit)
}

// isExcluded reports whether the session gets no new lessons. An ambiguous session, which may contain another session's
// requests, still gets lessons.
func (w *work) isExcluded() (excluded bool) {
	w.withUnitRecord(func(u *session.Record) { excluded = u.Assignment.Excluded })
	return (excluded || w.rec.Assignment.Excluded) && !w.rec.State.Ambiguous
}

// RecordRefusal records that the upstream accepted the request only without insertions. The session gets no more
// insertions, but stays in the experiment. Only sessions with insertions can be refused, so leaving out refused
// sessions would bias the comparison (intention to treat).
func (in *Injector) RecordRefusal(rec *session.Record) {
	rec.State.PassThrough, rec.State.Dirty = true, true
	rec.Assignment.Refused = true
	rec.Lessons.Blocks = nil
}

// RecordRefusedCuts records that the upstream refused a request in which the only change was cut sections. The session
// keeps the lessons, but no section is cut any more.
func (in *Injector) RecordRefusedCuts(rec *session.Record) {
	rec.State.NoDeletions, rec.State.Dirty = true, true
	rec.Assignment.CutRefused = true
}

// work is the state of one Plan or Replay call.
type work struct {
	injector      *Injector
	rec           *session.Record
	input         Input
	plan          *Plan
	insertedSlugs map[string]bool // lessons in this request's blocks
	loops         []loop          // set by findLoops

	historyMoved *bool // whether messages from the previous turn now have different indices; nil before the check
}

// addBlock inserts a block, and records the block for reinsertBlocks in later requests.
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

func (w *work) setSkipReason() {
	switch {
	case len(w.plan.Edits) > 0:
	case w.isExcludedWithoutBlocks():
		w.plan.SkipReason = SkipExcluded
	default:
		w.withUnitRecord(func(u *session.Record) { w.plan.SkipReason = w.skipReason(u) })
	}
}

// skipReason returns why the plan has no insertions. u is the unit's record.
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
