package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"precept/lesson"
	"precept/session"
	"precept/store"
	"precept/writ"
)

// The bounds of carrying out what agents write in their replies.
const (
	maxWrits  = 256              // replies that wait
	writLimit = 10 * time.Second // for one command
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
		t.mailbox().owe(t.w.id, true)
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
		t.mailbox().owe(t.w.id, false)
		return
	}
	o := order{t.set, lesson.Scope{Tenant: t.who.tenant, Agent: t.claim.Agent}, t.who.tenant, t.ses.ID, t.w.id, t.writs}
	select {
	case t.p.scribe.orders <- o:
	default:
		t.p.scribe.end(t.ses.ID)
		t.mailbox().owe(t.w.id, false)
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
	deliver(ses.Record, answers)
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
