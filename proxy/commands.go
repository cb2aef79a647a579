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

// commandJob is the commands of one reply.
type commandJob struct {
	set      *settings
	scope    lesson.Scope
	tenant   string
	session  session.ID
	request  string // whose reply holds them
	commands []writ.Command
}

// commandQueue executes /lesson commands after the reply that holds them, and puts the answers into
// the session's record.
type commandQueue struct {
	jobs chan commandJob

	mu   sync.Mutex
	busy map[session.ID]*pendingCommands
}

// pendingCommands are a session's replies whose commands are not executed yet.
type pendingCommands struct {
	replies int
	done    chan struct{} // closed when there are none left
}

func newCommandQueue() *commandQueue {
	return &commandQueue{jobs: make(chan commandJob, maxWrits), busy: map[session.ID]*pendingCommands{}}
}

// begin counts a reply with commands in, before its client can send the next turn.
func (s *commandQueue) begin(id session.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.busy[id]
	if e == nil {
		e = &pendingCommands{done: make(chan struct{})}
		s.busy[id] = e
	}
	e.replies++
}

// end counts a reply out.
func (s *commandQueue) end(id session.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.busy[id]
	if e == nil {
		return
	}
	if e.replies--; e.replies == 0 {
		close(e.done)
		delete(s.busy, id)
	}
}

// pendingOf is what is pending of a session; nil for nothing.
func (s *commandQueue) pendingOf(id session.ID) *pendingCommands {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy[id]
}

// wait lets a turn wait for the answers to the reply before it. What takes longer is answered a
// turn later.
func (e *pendingCommands) wait(ctx context.Context) {
	if e == nil {
		return
	}
	select {
	case <-e.done:
	case <-ctx.Done():
	}
}

// findCommands looks for commands in a reply before the client has the end of it.
func (t *turn) findCommands() {
	rep := t.watch.reply
	if !t.set.cfg.Writ.Enabled || t.p.opts.Bank == nil || t.side != "" || t.kept == nil || rep == nil || !rep.Complete || t.watch.overflow {
		return
	}
	if t.writs = writ.Parse(rep.Text, rep.Cut); len(t.writs) > 0 {
		t.p.commands.begin(t.ses.ID)
		t.mailbox().owe(t.w.id, true)
	}
}

// queueCommands hands the commands of a reply to the queue. Of a turn that opted out none is
// executed.
func (t *turn) queueCommands() {
	if len(t.writs) == 0 {
		return
	}
	t.complete(t.p.opts.Now())
	if t.p.opts.Store.OptedOut(t.kept, t.answered) {
		t.p.commands.end(t.ses.ID)
		t.mailbox().owe(t.w.id, false)
		return
	}
	o := commandJob{t.set, lesson.Scope{Tenant: t.who.tenant, Agent: t.claim.Agent}, t.who.tenant, t.ses.ID, t.w.id, t.writs}
	select {
	case t.p.commands.jobs <- o:
	default:
		t.p.commands.end(t.ses.ID)
		t.mailbox().owe(t.w.id, false)
		for _, c := range t.writs {
			t.p.opts.Metrics.writs.WithLabelValues(string(c.Verb), "dropped").Inc()
		}
	}
}

// ExecuteCommands executes the commands of agents until ctx is done, and then those still queued.
func (p *Proxy) ExecuteCommands(ctx context.Context) error {
	for {
		select {
		case o := <-p.commands.jobs:
			p.execute(o) //nolint:contextcheck // what was begun is finished, also at a stop; it is bounded by itself
		case <-ctx.Done():
			for {
				select {
				case o := <-p.commands.jobs:
					p.execute(o) //nolint:contextcheck // as above
				default:
					return nil
				}
			}
		}
	}
}

// execute executes the commands of one reply.
func (p *Proxy) execute(o commandJob) {
	defer p.commands.end(o.session)
	n := ownLessons{p, o.set, o.scope, p.logOf(o.request)}
	var answers []string
	for _, c := range o.commands {
		answer, result := writ.Answer(c.Verb, false, "it could not be carried out; try again later."), "failed"
		p.guard("writ", func() *slog.Logger { return p.logOf(o.request) }, func() {
			ctx, cancel := context.WithTimeout(context.Background(), writLimit)
			defer cancel()
			answer, result = n.execute(ctx, c, o.session)
		})
		p.opts.Metrics.writs.WithLabelValues(string(c.Verb), result).Inc()
		answers = append(answers, answer)
	}
	if p.opts.Pending != nil {
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
func (p *Proxy) send(o commandJob, answers []string) {
	text, err := json.Marshal(answers)
	ctx, cancel := context.WithTimeout(context.Background(), writLimit)
	defer cancel()
	if err = errors.Join(err, p.opts.Pending.Leave(ctx, o.tenant, o.session, o.request, string(text))); err != nil {
		p.opts.Metrics.FailedOpen("writ")
		p.logOf(o.request).Warn("the answers to an agent's commands could not be kept; the agent is not told", "error", err)
	}
}
