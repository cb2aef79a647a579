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
	SkipOff       = "off"        // Precept-Inject: off
	SkipRefused   = "refused"    // the upstream refused a changed request of this session
	SkipExcluded  = "excluded"   // the session is outside of the experiment
	SkipControl   = "control"    // the session is a control session
	SkipNoMatch   = "no_match"   // no lesson has matched in this session yet
	SkipWithheld  = "withheld"   // all picks were withheld
	SkipNotPicked = "not_picked" // no match was picked: no expected benefit, or the budget of the session is used up
	SkipEarlier   = "earlier"    // the provider's history contains the earlier blocks, or the agent removed their messages
)

// Plan is the change of a request. A Plan holds no pointer into the request.
type Plan struct {
	Kind  session.TurnKind
	Edits []wire.Edit // insertions, for wire.Request.Splice; edits at one position keep their order
	Cuts  []wire.Cut  // deletions of sections of rules files, as decided by the coins of the sections
	Skip  string      // one of the Skip constants if Edits is empty, otherwise ""

	Matched  []string        // slugs of the lessons that matched in this turn for the first time in the session
	Injected []string        // slugs of this turn's picks that are inserted
	Withheld []string        // slugs of this turn's picks that are withheld
	Lessons  []sample.Lesson // states of the lessons that matched in this turn, stored with the exchange
	Picks    []trial.Pick    // this turn's picks, with the results of their coins
	Cut      []string        // arm slugs of the sections in Cuts
	Loops    int             // number of new loops in this turn, including those whose warning is withheld
	Spent    bool            // the matching stopped at its work limit, or the head exceeded rules.MaxHead
	Answered bool            // the plan inserts answers to /lesson commands, or the description of these commands
}

// Changes reports whether the plan changes the request.
func (p *Plan) Changes() bool { return len(p.Edits)+len(p.Cuts) > 0 }

// Input holds the data of one turn from which Plan decides, apart from the session's record.
type Input struct {
	Request *wire.Request
	Claim   session.Claim
	Book    *lesson.Book
	Beliefs bandit.Beliefs
	Results *detect.Results      // cached classifications of the turn's tool results; nil if there are none
	Unit    *session.Record      // the unit that the session belongs to; nil means the session itself. The unit's lock is taken inside of the session's lock.
	Meaning []lesson.Resemblance // lessons that match earlier words of the session by meaning
	Rules   *rules.Registry      // sections under measurement; nil if none
	Now     time.Time

	Unlearned bool // learning from the session is forbidden, so no coin of a section is flipped
}

// Plan decides the insertions into the main request of a turn, and starts the turn in the record.
// The caller holds the lock of the record.
func (in *Injector) Plan(rec *session.Record, t Input) Plan {
	p := Plan{Kind: rec.Begin(t.Request, t.Now)}
	w := work{in: in, rec: rec, input: t, plan: &p}
	w.freezeFacts()
	w.observe()
	if p.Skip = w.idleReason(); p.Skip != "" {
		if p.Kind == session.NewTurn {
			rec.SetLastTurn(t.Request)
		}
		return p
	}
	w.cutSections()
	w.reinsertBlocks()
	if p.Kind == session.NewTurn {
		w.insertAnswers()
		if !w.isExcluded() { // no new coins for an excluded session
			if !in.cfg.NoLoops {
				w.insertWarnings()
			}
			w.insertLessons()
		}
		w.reinsertCompacted()
		rec.SetLastTurn(t.Request)
	}
	w.finish()
	return p
}

// idleReason returns the reason why the request stays unchanged. It returns "" if Plan may insert earlier or new
// blocks. An excluded session keeps its earlier blocks and gets no new lesson.
func (w *work) idleReason() string {
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
func (w *work) hasCutSection() (yes bool) {
	w.withCoins(func(u *session.Record) {
		yes = slices.ContainsFunc(u.Assignment.Picks, func(p trial.Pick) bool { return p.Arm.IsRule() && !p.Injected })
	})
	return yes
}

// freezeFacts stores the category, the model, the number of tools and the day of a session before its first coin. A
// unit gets the facts of its first session.
func (w *work) freezeFacts() {
	w.withCoins(func(u *session.Record) {
		first := w.rec.Thread.Turns == 1 && w.plan.Kind == session.NewTurn
		if u != w.rec {
			first = u.Assignment.Category == "" && !u.Assignment.Decided
		}
		if first {
			u.Assignment.Category = sessionCategory(w.rec, w.input.Request)
			u.Assignment.Model = session.NormalizeName(w.input.Request.Model)
			u.Assignment.Tools = len(w.input.Request.Tools)
			u.Assignment.Day, u.Assignment.At = trial.Day(u.Identity.Started), u.Identity.Started.Unix()
		}
	})
}

// withCoins calls use with the record that holds the session's coins. This record is the unit's, or the session's own
// if the session has no unit. The record is locked during the call.
func (w *work) withCoins(use func(u *session.Record)) {
	if w.input.Unit == nil || w.input.Unit == w.rec {
		use(w.rec)
		return
	}
	w.input.Unit.Lock()
	defer w.input.Unit.Unlock()
	use(w.input.Unit)
}

// isExcluded reports whether the session gets no new lessons, because the session or its unit is outside of the
// experiment. A doubted session is outside of the experiment, too, but still gets lessons. Otherwise an agent would
// lose its lessons because another agent sends an equal history.
func (w *work) isExcluded() (yes bool) {
	w.withCoins(func(u *session.Record) { yes = u.Assignment.Excluded })
	return (yes || w.rec.Assignment.Excluded) && !w.rec.State.Doubted
}

// RecordRefusal records that the upstream accepted the request only without the insertions. The session
// gets no further insertions. It stays in the experiment with its arms and reward, because only treated
// sessions can be refused, and leaving them out would bias the comparison (intention to treat).
func (in *Injector) RecordRefusal(rec *session.Record) {
	rec.State.PassThrough, rec.State.Dirty = true, true
	rec.Assignment.Refused = true
	rec.Lessons.Blocks = nil
}

// RecordRefusedCuts records that the upstream refused a request whose only changes were cut sections, and accepted the
// original. The session keeps its lessons and its arms, and no further section is cut.
func (in *Injector) RecordRefusedCuts(rec *session.Record) {
	rec.State.NoDeletions, rec.State.Dirty = true, true
	rec.Assignment.Uncut = true
}

// work is the state of one call of Plan or Replay.
type work struct {
	in            *Injector
	rec           *session.Record
	input         Input
	plan          *Plan
	insertedSlugs map[string]bool // slugs of the lessons in the blocks of this request
	loops         []loop          // loops in the new content, set by observe

	historyMoved *bool // the messages of the previous turn have other indices in this request; nil means not checked yet
}

// addBlock inserts a block into this request and adds the block to the record. replay inserts recorded blocks into
// every later request.
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

// finish sets the skip reason of a plan without insertions.
func (w *work) finish() {
	switch {
	case len(w.plan.Edits) > 0:
	case w.isExcludedWithoutBlocks():
		w.plan.Skip = SkipExcluded
	default:
		w.withCoins(func(u *session.Record) { w.plan.Skip = w.skipReason(u) })
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
