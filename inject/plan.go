package inject

import (
	"slices"
	"time"

	"precept/bandit"
	"precept/bandit/trial"
	"precept/detect"
	"precept/inject/lesson"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/internal/wire"
)

// Injector plans insertions. It is immutable and safe for concurrent use.
type Injector struct {
	cfg Config
}

// New makes one. What configs accepts fits.
func New(cfg Config) *Injector {
	if cfg.BudgetBytes <= 0 {
		cfg.BudgetBytes = defaultBudget
	}
	if cfg.Style == "" {
		cfg.Style = Advice
	}
	return &Injector{cfg: cfg}
}

// Config is what it was made of.
func (in *Injector) Config() Config { return in.cfg }

// Why a plan inserts nothing.
const (
	SkipOff       = "off"        // Precept-Inject: off
	SkipRefused   = "refused"    // the upstream refused a changed request of this session
	SkipExcluded  = "excluded"   // the session is no part of the experiment
	SkipControl   = "control"    // the session gets nothing
	SkipNoMatch   = "no_match"   // nothing has matched in this session so far
	SkipWithheld  = "withheld"   // a coin withheld what was picked
	SkipNotPicked = "not_picked" // of what matched nothing was picked: it would not help, or the session's budget is used up
	SkipEarlier   = "earlier"    // what the session got stands with the provider, or went with its message
)

// Plan is what to do with a request. It refers to nothing of the request.
type Plan struct {
	Kind  session.TurnKind
	Edits []wire.Edit // for wire.Request.Splice, texts of one place in their order
	Skip  string      // why Edits is empty, "" when it is not

	Matched  []string        // slugs that matched for the first time in the session
	Injected []string        // picked now and inserted
	Withheld []string        // picked now and held back
	Lessons  []sample.Lesson // what happened to the lessons that matched now, for the exchange
	Picks    []trial.Pick    // the new picks, with their coins
	Loops    int             // loops found now: warned of, or held back
	Spent    bool            // matching was given up, because it would have cost too much
	Answered bool            // an answer to /lesson commands is inserted now, or the word that there are such commands
}

// Turn is what a plan is made of, besides the session's record.
type Turn struct {
	Request *wire.Request
	Claim   session.Claim
	Book    *lesson.Book
	Beliefs bandit.Beliefs
	Results *detect.Results // what was judged of the turn's tool results so far; nil: nothing is remembered
	Unit    *session.Record // what the session draws through; nil: itself. It is locked inside of the session's lock
	Now     time.Time
}

// Plan decides what is inserted into the main request of a turn. It begins the turn in the record,
// which the caller has locked and holds for as long as it takes.
func (in *Injector) Plan(rec *session.Record, t Turn) Plan {
	p := Plan{Kind: rec.Begin(t.Request, t.Now)}
	w := work{in: in, rec: rec, Turn: t, plan: &p}
	w.open()
	if p.Skip = w.idle(); p.Skip != "" {
		if p.Kind == session.NewTurn {
			rec.Mark(t.Request)
		}
		return p
	}
	w.replay()
	if p.Kind == session.NewTurn {
		w.answers()
		if !w.excluded() { // else nothing new is drawn
			if !in.cfg.NoLoops {
				w.loops()
			}
			w.lessons()
		}
		w.reapply()
		rec.Mark(t.Request)
	}
	w.finish()
	return p
}

// idle says why nothing at all is inserted, old or new. A session that is no part of the experiment
// gets no lessons; what it had before is repeated, where that is known.
func (w *work) idle() string {
	switch {
	case w.rec.State.Refused:
		return SkipRefused
	case len(w.rec.Lessons.Blocks) == 0 && w.excluded():
		return SkipExcluded
	case w.Claim.InjectOff:
		return SkipOff
	}
	return ""
}

// open freezes what is known of a session before anything in it is random; of a unit, of its first
// one.
func (w *work) open() {
	w.drawn(func(u *session.Record) {
		first := w.rec.Thread.Turns == 1 && w.plan.Kind == session.NewTurn
		if u != w.rec {
			first = u.Assignment.Category == "" && !u.Assignment.Decided
		}
		if first {
			u.Assignment.Category = category(w.rec, w.Request)
			u.Assignment.Day, u.Assignment.At = trial.Day(u.Identity.Started), u.Identity.Started.Unix()
		}
	})
}

// drawn gives what the session draws through, locked.
func (w *work) drawn(use func(u *session.Record)) {
	if w.Unit == nil || w.Unit == w.rec {
		use(w.rec)
		return
	}
	w.Unit.Lock()
	defer w.Unit.Unlock()
	use(w.Unit)
}

// excluded says that nothing may be drawn for the session: it, or its unit, is no part of the
// experiment.
func (w *work) excluded() (yes bool) {
	w.drawn(func(u *session.Record) { yes = u.Assignment.Excluded })
	return (yes || w.rec.Assignment.Excluded) && !w.rec.State.Doubted
}

// Refused notes that the upstream took the request only without what the plan had put into it.
// Nothing is inserted in the session any more. It stays in the experiment, with its arms and its
// reward: only what was treated can be refused, and a comparison that leaves such sessions out
// compares others with others (intention to treat).
func (in *Injector) Refused(rec *session.Record) {
	rec.State.Refused, rec.State.Dirty = true, true
	rec.Assignment.Refused = true
	rec.Lessons.Blocks = nil
}

// work is one plan in the making.
type work struct {
	in  *Injector
	rec *session.Record
	Turn
	plan *Plan
	live map[string]bool // slugs that stand in the request

	moved *bool // the list of the turn before does not stand at its place in this one; nil: nobody has asked
}

// put inserts a block, now and from now on.
func (w *work) put(at spot, b session.Block) {
	b.Anchor, b.Turn, b.Once = at.anchor, w.rec.Thread.Turns, w.Request.Delta
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

// finish says what came of it.
func (w *work) finish() {
	if len(w.plan.Edits) == 0 {
		w.drawn(func(u *session.Record) { w.plan.Skip = w.absence(u) })
	}
}

// absence says why nothing stands in the request, of a session that draws through u.
func (w *work) absence(u *session.Record) string {
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
