package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"precept/inject/lesson"
	"precept/inject/writ"
	"precept/internal/label"
	"precept/internal/session"
	"precept/store"
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
	session  session.ID
	request  string // whose reply holds them
	commands []writ.Command
}

// commandQueue executes /lesson commands after the reply that holds them, and puts the answers into
// the session's record.
type commandQueue struct {
	*agentLessons
	jobs    chan commandJob
	pending pendingReplies
}

func newCommandQueue(lessons *agentLessons) *commandQueue {
	return &commandQueue{
		agentLessons: lessons, jobs: make(chan commandJob, maxWrits), pending: pendingReplies{busy: map[session.ID]*pendingCommands{}},
	}
}

// find looks for commands in a reply before the client has the end of it.
func (q *commandQueue) find(x *exchange) []writ.Command {
	rep := x.reply
	if !x.set.cfg.Writ.Enabled || q.opts.Bank == nil || x.kept == nil || !rep.Complete || x.overflow {
		return nil
	}
	found := writ.Parse(rep.Text, rep.Cut)
	if len(found) > 0 {
		q.pending.begin(x.ses.Identity.ID)
		x.mailbox().owe(x.w.id, true)
	}
	return found
}

// put hands the commands of a reply to the queue. Of a turn that opted out none is executed.
func (q *commandQueue) put(x *exchange, commands []writ.Command) {
	if len(commands) == 0 {
		return
	}
	x.complete(q.opts.Now())
	if !q.opts.Store.OptedOut(x.kept, x.answers) {
		select {
		case q.jobs <- commandJob{x.set, lesson.Scope{Tenant: x.who.tenant, Agent: x.query.Claim.Agent}, x.ses.Identity.ID, x.w.id, commands}:
			return
		default:
		}
		for _, c := range commands {
			q.opts.Metrics.writs.WithLabelValues(string(c.Verb), "dropped").Inc()
		}
	}
	q.pending.end(x.ses.Identity.ID)
	x.mailbox().owe(x.w.id, false)
}

// run executes commands until ctx is done, and then those still queued.
func (q *commandQueue) run(ctx context.Context) error {
	for {
		select {
		case o := <-q.jobs:
			q.execute(o) //nolint:contextcheck // what was begun is finished, also at a stop; it is bounded by itself
			continue
		case <-ctx.Done():
		}
		select {
		case o := <-q.jobs:
			q.execute(o) //nolint:contextcheck // as above
		default:
			return nil
		}
	}
}

// execute executes the commands of one reply.
func (q *commandQueue) execute(o commandJob) {
	defer q.pending.end(o.session)
	n := ownLessons{q.agentLessons, o.set, o.scope, q.opts.logOf(o.request)}
	var answers []string
	for _, c := range o.commands {
		answer, result := writ.Answer(c.Verb, false, "it could not be carried out; try again later."), "failed"
		q.opts.guard(label.StepWrit, func() *slog.Logger { return q.opts.logOf(o.request) }, func() {
			ctx, cancel := context.WithTimeout(context.Background(), writLimit)
			defer cancel()
			answer, result = n.execute(ctx, c, o.session)
		})
		q.opts.Metrics.writs.WithLabelValues(string(c.Verb), result).Inc()
		answers = append(answers, answer)
	}
	if q.opts.Pending != nil {
		q.send(o, answers)
		return
	}
	ses, _ := q.opts.Store.Acquire(context.Background(), o.scope.Tenant, o.session)
	if ses == nil {
		return // nobody is there to be told
	}
	ses.Lock()
	deliver(ses.Record, answers)
	ses.Unlock()
	q.opts.Store.Release(ses, store.Decided)
}

// send leaves answers for whichever replica takes the next turn. A store that is away costs them.
func (q *commandQueue) send(o commandJob, answers []string) {
	text, err := json.Marshal(answers)
	ctx, cancel := context.WithTimeout(context.Background(), writLimit)
	defer cancel()
	if err = errors.Join(err, q.opts.Pending.Leave(ctx, o.scope.Tenant, o.session, o.request, string(text))); err != nil {
		q.opts.Metrics.FailedOpen(label.StepWrit)
		q.opts.logOf(o.request).Warn("the answers to an agent's commands could not be kept; the agent is not told", "error", err)
	}
}
