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

// The bounds of executing commands.
const (
	maxWrits  = 256              // replies in the queue
	writLimit = 10 * time.Second // of one command
)

// commandJob holds the commands of one reply.
type commandJob struct {
	set      *settings
	scope    lesson.Scope
	session  session.ID
	request  string // the request whose reply has the commands
	commands []writ.Command
}

// commandQueue executes /lesson commands after the reply with the commands, and delivers the
// answers to the session.
type commandQueue struct {
	lessons *agentLessons
	jobs    chan commandJob
	pending pendingReplies
}

func newCommandQueue(lessons *agentLessons) *commandQueue {
	return &commandQueue{
		lessons: lessons, jobs: make(chan commandJob, maxWrits), pending: pendingReplies{busy: map[session.ID]*pendingCommands{}},
	}
}

// put queues the commands of a reply. put reports false, and counts the commands as dropped, where
// the queue is full.
func (q *commandQueue) put(job *commandJob) bool {
	select {
	case q.jobs <- *job:
		return true
	default:
	}
	for _, c := range job.commands {
		q.lessons.opts.Metrics.writs.WithLabelValues(string(c.Verb), "dropped").Inc()
	}
	return false
}

// run executes commands until ctx is done, and then the queued commands.
func (q *commandQueue) run(ctx context.Context) error {
	for {
		select {
		case o := <-q.jobs:
			q.execute(o) //nolint:contextcheck // a begun command is finished, also at a stop; writLimit bounds the time
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
	n := ownLessons{q.lessons, o.set, o.scope, q.lessons.opts.logOf(o.request)}
	var answers []string
	for _, c := range o.commands {
		answer, result := writ.Answer(c.Verb, false, "it could not be carried out; try again later."), "failed"
		q.lessons.opts.guard(label.StepWrit, func() *slog.Logger { return q.lessons.opts.logOf(o.request) }, func() {
			ctx, cancel := context.WithTimeout(context.Background(), writLimit)
			defer cancel()
			answer, result = n.execute(ctx, c, o.session)
		})
		q.lessons.opts.Metrics.writs.WithLabelValues(string(c.Verb), result).Inc()
		answers = append(answers, answer)
	}
	if q.lessons.opts.Pending != nil {
		q.send(o, answers)
		return
	}
	ses, _ := q.lessons.opts.Store.Acquire(context.Background(), o.scope.Tenant, o.session)
	if ses == nil {
		return // the session is gone
	}
	ses.Lock()
	deliver(ses.Record, answers)
	ses.Unlock()
	q.lessons.opts.Store.Release(ses, store.Decided)
}

// send stores the answers for the replica that serves the next turn. The answers are lost where the
// store is away.
func (q *commandQueue) send(o commandJob, answers []string) {
	text, err := json.Marshal(answers)
	ctx, cancel := context.WithTimeout(context.Background(), writLimit)
	defer cancel()
	if err = errors.Join(err, q.lessons.opts.Pending.Leave(ctx, o.scope.Tenant, o.session, o.request, string(text))); err != nil {
		q.lessons.opts.Metrics.FailedOpen(label.StepWrit)
		q.lessons.opts.logOf(o.request).Warn("the answers to an agent's commands could not be kept; the agent is not told", "error", err)
	}
}
