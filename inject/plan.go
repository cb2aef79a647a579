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
	SkipExcluded  = "excluded"   // the session is not part of the experiment
	SkipControl   = "control"    // control session
	SkipNoMatch   = "no_match"   // no match in this session so far
	SkipWithheld  = "withheld"   // all picks were withheld
	SkipNotPicked = "not_picked" // no match was picked: no expected benefit, or the budget of the session is used up
	SkipEarlier   = "earlier"    // earlier blocks are in the provider's history, or were removed with their message
)

// Plan is the change of a request. A Plan does not refer to the request.
type Plan struct {
	Kind  session.TurnKind
	Edits []wire.Edit // for wire.Request.Splice, in order within a place
	Cuts  []wire.Cut  // sections of rules files that the coin cuts
	Skip  string      // reason for empty Edits, else empty

	Matched  []string        // slugs of the first matches in this session
	Injected []string        // picked now and inserted
	Withheld []string        // picked now and withheld
	Lessons  []sample.Lesson // state of the lessons that matched in this turn, for the exchange
	Picks    []trial.Pick    // the new picks, with their coins
	Cut      []string        // slugs of the arms of the sections in Cuts
	Loops    int             // loops found now, even if their warning is withheld
	Spent    bool            // the matching stopped at its work limit, or the head is too long for the sections
	Answered bool            // the plan inserts an answer to /lesson commands, or the information about them
}

// Changes reports whether the plan changes the request.
func (p *Plan) Changes() bool { return len(p.Edits)+len(p.Cuts) > 0 }

// Input is the input of a plan, apart from the session's record.
type Input struct {
	Request *wire.Request
	Claim   session.Claim
	Book    *lesson.Book
	Beliefs bandit.Beliefs
	Results *detect.Results      // judgements of the turn's tool results so far; nil if none kept
	Unit    *session.Record      // unit of the session's coins; nil means the session itself. The unit's lock is taken inside of the session's lock
	Meaning []lesson.Resemblance // lessons that match earlier words of the session by meaning
	Rules   *rules.Registry      // sections under measurement; nil if none
	Now     time.Time

	Unlearned bool // the session is not learned from, so no coin of a section is flipped
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
	w.sections()
	w.replay()
	if p.Kind == session.NewTurn {
		w.answers()
		if !w.excluded() { // no new coins for an excluded session
			if !in.cfg.NoLoops {
				w.warn()
			}
			w.lessons()
		}
		w.reapply()
		rec.SetLastTurn(t.Request)
	}
	w.finish()
	return p
}

// idleReason returns the reason for a request without any block, earlier or new; empty if blocks may be
// inserted. An excluded session keeps its earlier blocks and gets no new lesson.
func (w *work) idleReason() string {
	switch {
	case w.rec.State.PassThrough:
		return SkipRefused
	case w.bare() && !w.losesSection():
		return SkipExcluded
	case w.input.Claim.InjectOff:
		return SkipOff
	}
	return ""
}

// bare reports whether the session is excluded from the experiment and has no blocks.
func (w *work) bare() bool { return len(w.rec.Lessons.Blocks) == 0 && w.excluded() }

// losesSection reports whether a coin of the unit cuts a section.
func (w *work) losesSection() (yes bool) {
	w.withCoins(func(u *session.Record) {
		yes = slices.ContainsFunc(u.Assignment.Picks, func(p trial.Pick) bool { return p.Arm.IsRule() && !p.Injected })
	})
	return yes
}

// freezeFacts stores category, model, tools and day of a session before its first coin; for a unit, those of its
// first session.
func (w *work) freezeFacts() {
	w.withCoins(func(u *session.Record) {
		first := w.rec.Thread.Turns == 1 && w.plan.Kind == session.NewTurn
		if u != w.rec {
			first = u.Assignment.Category == "" && !u.Assignment.Decided
		}
		if first {
			u.Assignment.Category = category(w.rec, w.input.Request)
			u.Assignment.Model = session.Bounded(w.input.Request.Model)
			u.Assignment.Tools = len(w.input.Request.Tools)
			u.Assignment.Day, u.Assignment.At = trial.Day(u.Identity.Started), u.Identity.Started.Unix()
		}
	})
}

// withCoins calls use with the locked record of the session's coins.
func (w *work) withCoins(use func(u *session.Record)) {
	if w.input.Unit == nil || w.input.Unit == w.rec {
		use(w.rec)
		return
	}
	w.input.Unit.Lock()
	defer w.input.Unit.Unlock()
	use(w.input.Unit)
}

// excluded reports whether the session gets no new lessons, because the session or its unit is outside of the
// experiment. A doubted session is outside of the experiment as well, but still gets lessons: an agent must not lose
// its lessons because another agent sends an equal history.
func (w *work) excluded() (yes bool) {
	w.withCoins(func(u *session.Record) { yes = u.Assignment.Excluded })
	return (yes || w.rec.Assignment.Excluded) && !w.rec.State.Doubted
}

// RecordRefusal records that the upstream accepted the request only without the insertions. The session
// gets no further insertions and stays in the experiment with its arms and reward: only treated
// sessions can be refused, so leaving them out would bias the comparison (intention to treat).
func (in *Injector) RecordRefusal(rec *session.Record) {
	rec.State.PassThrough, rec.State.Dirty = true, true
	rec.Assignment.Refused = true
	rec.Lessons.Blocks = nil
}

// RecordRefusedCuts records that the upstream accepted a request without insertions only with all its sections.
// The session keeps its lessons and its arms, and loses no further section.
func (in *Injector) RecordRefusedCuts(rec *session.Record) {
	rec.State.NoDeletions, rec.State.Dirty = true, true
	rec.Assignment.Uncut = true
}

// work is the state of one plan.
type work struct {
	in    *Injector
	rec   *session.Record
	input Input
	plan  *Plan
	live  map[string]bool // slugs of the blocks in the request
	loops []loop          // loops in the new content, set by observe

	moved *bool // the list of the previous turn is not at its place in this list; nil means not checked yet
}

// addBlock inserts a block into this request, and adds the block to the record, from which every later request gets the
// block again.
func (w *work) addBlock(at spot, b session.Block) {
	b.Anchor, b.Turn, b.KeptByProvider = at.anchor, w.rec.Thread.Turns, w.input.Request.Delta
	w.rec.Lessons.Blocks = append(w.rec.Lessons.Blocks, b)
	w.insert(at.item, at.block, &b)
}

func (w *work) insert(item, block int, b *session.Block) {
	w.plan.Edits = append(w.plan.Edits, wire.Edit{Item: item, Block: block, Text: b.Text})
	for _, s := range b.Slugs {
		if w.live == nil {
			w.live = make(map[string]bool)
		}
		w.live[s] = true
	}
}

// finish completes the plan.
func (w *work) finish() {
	switch {
	case len(w.plan.Edits) > 0:
	case w.bare():
		w.plan.Skip = SkipExcluded
	default:
		w.withCoins(func(u *session.Record) { w.plan.Skip = w.skipReason(u) })
	}
}

// skipReason returns the reason for a request without any block. u holds the coins of the session.
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
