package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"precept/inject/lesson"
	"precept/inject/writ"
	"precept/internal/label"
	"precept/internal/session"
	"precept/store"
)

const (
	maxQueuedReplies  = 1024             // from this queue length on, commands are refused with an answer
	maxRefusedReplies = 64 << 10         // from this queue length on, commands are dropped
	commandTimeout    = 10 * time.Second // per command
)

// commandJob is a reply's /lesson commands, with the agent and session that they belong to.
type commandJob struct {
	settings *settings
	scope    lesson.Scope
	session  session.ID
	request  string // id of the request with the commands in the reply
	commands []writ.Command
}

// commandQueue executes /lesson commands after the reply, and adds the answers to the session.
type commandQueue struct {
	lessons *agentLessons
	pending pendingReplies
	wake    chan struct{} // holds a token while jobs wait

	mu   sync.Mutex
	jobs []commandJob
}

func newCommandQueue(lessons *agentLessons) *commandQueue {
	return &commandQueue{
		lessons: lessons, wake: make(chan struct{}, 1), pending: pendingReplies{bySession: map[session.ID]*pendingCommands{}},
	}
}

const tooManyWait = "too many commands wait to be executed, so this command was not executed; send it again later"

// enqueue adds a job to the queue. It returns false if the queue has maxRefusedReplies replies.
func (q *commandQueue) enqueue(job *commandJob) bool {
	q.mu.Lock()
	n := len(q.jobs)
	if n < maxRefusedReplies {
		if n >= maxQueuedReplies {
			job.refuse()
		}
		q.jobs = append(q.jobs, *job)
	}
	q.mu.Unlock()
	if n >= maxRefusedReplies {
		for _, c := range job.commands {
			q.lessons.opts.Metrics.writs.WithLabelValues(string(c.Verb), "dropped").Inc()
		}
		return false
	}
	select {
	case q.wake <- struct{}{}:
	default: // the token is already there
	}
	return true
}

// refuse makes tooManyWait the answer to a job's commands.
func (j *commandJob) refuse() {
	refused := make([]writ.Command, len(j.commands))
	for i, c := range j.commands {
		refused[i] = writ.Command{Verb: c.Verb, Problem: tooManyWait}
	}
	j.commands = refused
}

// run executes commands until ctx is done, and then executes the commands still in the queue.
func (q *commandQueue) run(ctx context.Context) error {
	for {
		select {
		case <-q.wake:
			q.executeAll() //nolint:contextcheck // a shutdown does not cancel a command; commandTimeout bounds the time
		case <-ctx.Done():
			q.executeAll() //nolint:contextcheck // a shutdown does not cancel a command; commandTimeout bounds the time
			return nil
		}
	}
}

// executeAll executes the queued commands. A session's commands run in order. Different sessions' commands run at the
// same time, because the bank commits concurrent writes together.
func (q *commandQueue) executeAll() {
	for {
		q.mu.Lock()
		jobs := q.jobs
		q.jobs = nil
		q.mu.Unlock()
		if len(jobs) == 0 {
			return
		}
		var order []session.ID
		bySession := map[session.ID][]commandJob{}
		for _, job := range jobs {
			if bySession[job.session] == nil {
				order = append(order, job.session)
			}
			bySession[job.session] = append(bySession[job.session], job)
		}
		var all errgroup.Group
		all.SetLimit(maxQueuedReplies)
		for _, id := range order {
			all.Go(func() error {
				for _, job := range bySession[id] {
					q.execute(job)
				}
				return nil
			})
		}
		_ = all.Wait() // no job returns an error
	}
}

func (q *commandQueue) execute(job commandJob) {
	defer q.pending.end(job.session)
	req := lessonsRequest{q.lessons, job.settings, job.scope, q.lessons.opts.requestLog(job.request)}
	var answers []string
	for _, c := range job.commands {
		answer, result := writ.Answer(string(c.Verb), false, "the command could not be executed; try again later."), "failed"
		q.lessons.opts.runStep(label.StepWritCommand, func() *slog.Logger { return q.lessons.opts.requestLog(job.request) }, func() {
			ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
			defer cancel()
			answer, result = req.execute(ctx, c, job.session)
		})
		q.lessons.opts.Metrics.writs.WithLabelValues(string(c.Verb), result).Inc()
		answers = append(answers, answer)
	}
	if q.lessons.opts.Answers != nil {
		q.send(job, answers)
		return
	}
	ses, _ := q.lessons.opts.Store.Acquire(context.Background(), job.scope.Tenant, job.session)
	if ses == nil {
		return // session is gone
	}
	ses.Record.Mutex.Lock()
	addAnswers(ses.Record, answers)
	ses.Record.Mutex.Unlock()
	q.lessons.opts.Store.Release(ses, store.DecisionsChanged)
}

// send stores the answers for the replica that serves the next turn. If the store fails, the answers are lost.
func (q *commandQueue) send(job commandJob, answers []string) {
	text, err := json.Marshal(answers)
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	if err = errors.Join(err, q.lessons.opts.Answers.PutAnswer(ctx, job.scope.Tenant, job.session, job.request, string(text))); err != nil {
		q.lessons.opts.Metrics.FailedOpen(label.StepWritCommand)
		q.lessons.opts.requestLog(job.request).Warn("answers to an agent's commands could not be stored; the agent gets no answer", "error", err)
	}
}
