package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"precept/lesson"
	"precept/session"
	"precept/store"
	"precept/writ"
)

// The bounds of carrying out what agents write in their replies.
const (
	maxWrits   = 256                   // replies that wait
	writLimit  = 10 * time.Second      // for one command
	writPause  = 40 * time.Millisecond // a turn may wait for the answers to the reply before it
	maxAnswers = 8                     // that wait in a session for its next turn
	maxOwed    = 4                     // replies whose answers are awaited from another replica
	lookAgain  = 8 * time.Millisecond  // how soon one that has not come is looked for again
)

// order is a reply with commands.
type order struct {
	set      *settings
	scope    lesson.Scope
	tenant   string
	session  session.ID
	request  string // whose reply holds them
	commands []writ.Command
}

// scribe carries out /lesson commands after the reply that holds them, and leaves the answers in
// the session's record.
type scribe struct {
	orders chan order

	mu   sync.Mutex
	busy map[session.ID]*errand
}

// Letters keeps texts with a session for whichever replica takes its next turn.
type Letters interface {
	Leave(ctx context.Context, tenant string, id session.ID, name, text string) error
	// Take gives what was left under a name, once.
	Take(ctx context.Context, tenant string, id session.ID, name string) (text string, ok bool, err error)
}

// errand is what is under way of one session.
type errand struct {
	left int
	over chan struct{} // closed when nothing is left
}

func newScribe() *scribe {
	return &scribe{orders: make(chan order, maxWrits), busy: map[session.ID]*errand{}}
}

// begin announces commands of a session before its client can send the next turn.
func (s *scribe) begin(id session.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.busy[id]
	if e == nil {
		e = &errand{over: make(chan struct{})}
		s.busy[id] = e
	}
	e.left++
}

// end takes an announcement back.
func (s *scribe) end(id session.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.busy[id]
	if e == nil {
		return
	}
	if e.left--; e.left == 0 {
		close(e.over)
		delete(s.busy, id)
	}
}

// errandOf is what is under way of a session, nil for nothing.
func (s *scribe) errandOf(id session.ID) *errand {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy[id]
}

// wait lets a turn wait for the answers to the reply before it. What takes longer is answered a
// turn later.
func (e *errand) wait(ctx context.Context) {
	if e == nil {
		return
	}
	select {
	case <-e.over:
	case <-ctx.Done():
	}
}

// commanded looks for commands in a reply, once, before the client has the end of it.
func (t *turn) commanded() {
	rep := t.watch.reply
	if !t.set.cfg.Writ.Enabled || t.p.opts.Bank == nil || t.side != "" || t.kept == nil || rep == nil || !rep.Complete || t.watch.overflow {
		return
	}
	if t.writs = writ.Parse(rep.Text, rep.Cut); len(t.writs) > 0 {
		t.p.scribe.begin(t.ses.ID)
		t.owe(true)
	}
}

// owe notes that answers will come through the store, or that none will after all.
func (s *sender) owe(some bool) {
	if s.p.opts.Letters == nil {
		return
	}
	s.ses.Lock()
	defer s.ses.Unlock()
	s.ses.Owed = slices.DeleteFunc(s.ses.Owed, func(id string) bool { return id == s.w.id })
	if some {
		s.ses.Owed = append(s.ses.Owed, s.w.id)
		s.ses.Owed = s.ses.Owed[max(0, len(s.ses.Owed)-maxOwed):]
	}
	s.ses.Dirty = true
}

// answers waits for the answers to the reply before this turn, wherever that was given, and puts
// them into the record. What takes longer is looked for once more in the next turn.
func (s *sender) answers() {
	busy := s.p.scribe.errandOf(s.ses.ID)
	s.ses.Lock()
	owed := slices.Clone(s.ses.Owed)
	s.ses.Unlock()
	if busy == nil && len(owed) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(s.r.Context(), writPause)
	defer cancel()
	busy.wait(ctx)
	if s.p.opts.Letters == nil {
		return
	}
	for _, request := range owed {
		text, late := s.letter(ctx, request)
		var list []string
		_ = json.Unmarshal([]byte(text), &list) // "" where none came
		s.ses.Lock()
		s.ses.Owed = slices.DeleteFunc(s.ses.Owed, func(id string) bool { return id == request || id == late })
		if len(list) == 0 && late != "" {
			s.ses.Owed = append(s.ses.Owed, late)
		}
		s.ses.Answers = append(s.ses.Answers, list...)
		s.ses.Answers = s.ses.Answers[max(0, len(s.ses.Answers)-maxAnswers):]
		s.ses.Dirty = true
		s.ses.Unlock()
	}
}

// lateMark stands before a request whose answer was waited for once: it is looked for once more,
// without a wait.
const lateMark = "-"

// letter takes the answers to one reply. late is what is owed then, where they have not come.
func (s *sender) letter(ctx context.Context, request string) (text, late string) {
	name, again := strings.CutPrefix(request, lateMark)
	for {
		text, ok, err := s.p.opts.Letters.Take(ctx, s.who.tenant, s.ses.ID, name)
		switch {
		case ok:
			return text, ""
		case err != nil && ctx.Err() == nil:
			s.p.opts.Metrics.FailedOpen("writ")
			return "", lateMark + name
		case again:
			return "", ""
		}
		select {
		case <-ctx.Done():
			return "", lateMark + name
		case <-time.After(lookAgain):
		}
	}
}

// command hands the commands of a reply over. Nothing is written down of a turn that opted out.
func (t *turn) command() {
	if len(t.writs) == 0 {
		return
	}
	t.complete(t.p.opts.Now())
	if t.p.opts.Store.OptedOut(t.kept, t.answered) {
		t.p.scribe.end(t.ses.ID)
		t.owe(false)
		return
	}
	o := order{t.set, lesson.Scope{Tenant: t.who.tenant, Agent: t.claim.Agent}, t.who.tenant, t.ses.ID, t.w.id, t.writs}
	select {
	case t.p.scribe.orders <- o:
	default:
		t.p.scribe.end(t.ses.ID)
		t.owe(false)
		for _, c := range t.writs {
			t.p.opts.Metrics.writs.WithLabelValues(string(c.Verb), "dropped").Inc()
		}
	}
}

// Write carries out the commands of agents until ctx is done, and then what still waits.
func (p *Proxy) Write(ctx context.Context) error {
	for {
		select {
		case o := <-p.scribe.orders:
			p.carryOut(o) //nolint:contextcheck // what was begun is finished, also at a stop; it is bounded by itself
		case <-ctx.Done():
			for {
				select {
				case o := <-p.scribe.orders:
					p.carryOut(o) //nolint:contextcheck // as above
				default:
					return nil
				}
			}
		}
	}
}

// carryOut does what one reply asks for.
func (p *Proxy) carryOut(o order) {
	defer p.scribe.end(o.session)
	n := notebook{p, o.set, o.scope, p.logOf(o.request)}
	var answers []string
	for _, c := range o.commands {
		answer, result := writ.Answer(c.Verb, false, "it could not be carried out; try again later."), "failed"
		p.guard("writ", func() *slog.Logger { return p.logOf(o.request) }, func() {
			ctx, cancel := context.WithTimeout(context.Background(), writLimit)
			defer cancel()
			answer, result = n.obey(ctx, c, o.session)
		})
		p.opts.Metrics.writs.WithLabelValues(string(c.Verb), result).Inc()
		answers = append(answers, answer)
	}
	if p.opts.Letters != nil {
		p.send(o, answers)
		return
	}
	ses, _ := p.opts.Store.Acquire(context.Background(), o.tenant, o.session)
	if ses == nil {
		return // nobody is there to be told
	}
	ses.Lock()
	ses.Answers = append(ses.Answers, answers...)
	ses.Answers = ses.Answers[max(0, len(ses.Answers)-maxAnswers):]
	ses.Dirty = true
	ses.Unlock()
	p.opts.Store.Release(ses, store.Decided)
}

// send leaves answers for whichever replica takes the next turn. A store that is away costs them.
func (p *Proxy) send(o order, answers []string) {
	text, err := json.Marshal(answers)
	ctx, cancel := context.WithTimeout(context.Background(), writLimit)
	defer cancel()
	if err = errors.Join(err, p.opts.Letters.Leave(ctx, o.tenant, o.session, o.request, string(text))); err != nil {
		p.opts.Metrics.FailedOpen("writ")
		p.logOf(o.request).Warn("the answers to an agent's commands could not be kept; the agent is not told", "error", err)
	}
}
