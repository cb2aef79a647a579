package proxy

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"precept/internal/label"
	"precept/internal/session"
	"precept/store"
)

const (
	maxAnswerWait = 40 * time.Millisecond // maximum time a turn waits for the answers to the previous reply's commands
	maxAnswers    = 8                     // maximum number of answers inserted into a session's next turn
	maxPending    = 4                     // maximum number of a session's replies with answers expected from a different replica
	answerRetry   = 8 * time.Millisecond  // pause before a missing answer is looked up again
)

// mailbox passes answers to /lesson commands to the session's next turn.
type mailbox struct {
	opts    *Options
	pending *pendingReplies
	tenant  string
	ses     *store.Session
}

// addAnswers adds answers for the next turn. The caller holds rec.Mutex.
func addAnswers(rec *session.Record, answers []string) {
	rec.Mailbox.Answers = append(rec.Mailbox.Answers, answers...)
	rec.Mailbox.Answers = rec.Mailbox.Answers[max(0, len(rec.Mailbox.Answers)-maxAnswers):]
	rec.State.Dirty = true
}

// setPending records whether the answers will come through the shared store.
func (m mailbox) setPending(request string, pending bool) {
	if m.opts.Answers == nil {
		return
	}
	m.ses.Record.Mutex.Lock()
	defer m.ses.Record.Mutex.Unlock()
	m.ses.Record.Mailbox.Pending = slices.DeleteFunc(m.ses.Record.Mailbox.Pending, func(id string) bool { return id == request })
	if pending {
		m.ses.Record.Mailbox.Pending = append(m.ses.Record.Mailbox.Pending, request)
		m.ses.Record.Mailbox.Pending = m.ses.Record.Mailbox.Pending[max(0, len(m.ses.Record.Mailbox.Pending)-maxPending):]
	}
	m.ses.Record.State.Dirty = true
}

// collect waits up to maxAnswerWait for the answers to the previous reply's commands. A different replica can write the
// answers. Each of the next maxLooks turns looks again for late answers.
func (m mailbox) collect(ctx context.Context) {
	local := m.pending.get(m.ses.Record.Identity.ID) // commands being executed by this replica
	m.ses.Record.Mutex.Lock()
	requests := slices.Clone(m.ses.Record.Mailbox.Pending)
	m.ses.Record.Mutex.Unlock()
	if local == nil && len(requests) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, maxAnswerWait)
	defer cancel()
	if local != nil {
		select {
		case <-local.done:
		case <-ctx.Done(): // later answers belong to a later turn
		}
	}
	if m.opts.Answers == nil {
		return
	}
	for _, request := range requests {
		text, late := m.readAnswers(ctx, request)
		var list []string
		_ = json.Unmarshal([]byte(text), &list) // an empty text has no answers
		m.ses.Record.Mutex.Lock()
		if box := &m.ses.Record.Mailbox; slices.Contains(box.Pending, request) { // otherwise a parallel turn has the answers
			box.Pending = slices.DeleteFunc(box.Pending, func(id string) bool { return id == request })
			if len(list) == 0 && late != "" {
				box.Pending = append(box.Pending, late)
			}
			addAnswers(m.ses.Record, list)
		}
		m.ses.Record.Mutex.Unlock()
	}
}

// Each turn that finds no answer prepends lateMark to the request id in Mailbox.Pending. For a marked id, a turn looks
// only once and does not wait. After maxLooks marks, the answers are considered lost. A lookup that fails or times out
// adds no mark to a marked id, because the answers may be there.
const (
	lateMark = "-"
	maxLooks = 16
)

// readAnswers reads the answers and deletes them in a second call, because a single call that times out could lose
// them. Without an answer, late is the entry to keep in Mailbox.Pending, or "" after maxLooks.
func (m mailbox) readAnswers(ctx context.Context, request string) (text, late string) {
	name := strings.TrimLeft(request, lateMark)
	earlierLooks := len(request) - len(name)
	failed := lateMark + name
	if earlierLooks > 0 {
		failed = request
	}
	if earlierLooks < maxLooks {
		late = lateMark + request
	}
	id := m.ses.Record.Identity.ID
	for {
		text, ok, err := m.opts.Answers.Answer(ctx, m.tenant, id, name)
		switch {
		case ok:
			_ = m.opts.Answers.DeleteAnswer(ctx, m.tenant, id, name) // otherwise the text is deleted with the session
			return text, ""
		case err != nil:
			if ctx.Err() == nil {
				m.opts.Metrics.FailedOpen(label.StepWritCommand)
			}
			return "", failed
		case earlierLooks > 0:
			return "", late
		}
		select {
		case <-ctx.Done():
			return "", late
		case <-time.After(answerRetry):
		}
	}
}

// pendingReplies counts the replies with unexecuted commands, by session.
type pendingReplies struct {
	mu        sync.Mutex
	bySession map[session.ID]*pendingCommands
}

type pendingCommands struct {
	replies int
	done    chan struct{} // closed when replies is zero
}

// add counts a reply. Call it before the client can send the next turn.
func (p *pendingReplies) add(id session.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	commands := p.bySession[id]
	if commands == nil {
		commands = &pendingCommands{done: make(chan struct{})}
		p.bySession[id] = commands
	}
	commands.replies++
}

func (p *pendingReplies) end(id session.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	commands := p.bySession[id]
	if commands == nil {
		return
	}
	if commands.replies--; commands.replies == 0 {
		close(commands.done)
		delete(p.bySession, id)
	}
}

func (p *pendingReplies) get(id session.ID) *pendingCommands {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bySession[id]
}
