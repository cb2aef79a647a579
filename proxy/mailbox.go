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

// Bounds of the wait for answers to /lesson commands.
const (
	maxAnswerWait = 40 * time.Millisecond // maximum time that a turn waits for the answers to the previous reply's commands
	maxAnswers    = 8                     // maximum number of answers that the next turn of a session inserts
	maxPending    = 4                     // maximum number of replies of a session whose answers may come from a different replica
	answerRetry   = 8 * time.Millisecond  // pause before a missing answer is looked up again
)

// mailbox holds the answers to the /lesson commands of one session.
type mailbox struct {
	opts    *Options
	pending *pendingReplies
	tenant  string
	ses     *store.Session
}

// addAnswers adds answers to the record of a session, for the next turn. The caller holds rec.Mutex.
func addAnswers(rec *session.Record, answers []string) {
	rec.Mailbox.Answers = append(rec.Mailbox.Answers, answers...)
	rec.Mailbox.Answers = rec.Mailbox.Answers[max(0, len(rec.Mailbox.Answers)-maxAnswers):]
	rec.State.Dirty = true
}

// setPending records whether the answers to the commands of a reply will come through the shared store.
func (m mailbox) setPending(request string, pending bool) {
	if m.opts.Pending == nil {
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

// collect waits up to maxAnswerWait for the answers to the commands of the previous reply, and adds the answers to the
// record. Another replica may write the answers. For answers that come later, each of the next maxLooks turns looks
// again.
func (m mailbox) collect(ctx context.Context) {
	local := m.pending.get(m.ses.Record.Identity.ID) // commands that this replica executes
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
		case <-ctx.Done(): // later answers belong to the turn after this one
		}
	}
	if m.opts.Pending == nil {
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

// Each turn that finds no answer to the commands of a reply prepends lateMark to the id of the request in
// Mailbox.Pending. For a marked id, a turn looks for the answers only once, and does not wait. After maxLooks marks,
// the answers are considered lost.
const (
	lateMark = "-"
	maxLooks = 16
)

// readAnswers reads the answers to the commands of one reply from the store, and then deletes the answers in a second
// call of the store. A single call that times out could lose the answers. If there is no answer, late is the entry to
// keep in Mailbox.Pending, or "" after maxLooks.
func (m mailbox) readAnswers(ctx context.Context, request string) (text, late string) {
	name := strings.TrimLeft(request, lateMark)
	looks := len(request) - len(name)
	id := m.ses.Record.Identity.ID
	if looks < maxLooks {
		late = lateMark + request
	}
	for {
		text, ok, err := m.opts.Pending.Answer(ctx, m.tenant, id, name)
		switch {
		case ok:
			_ = m.opts.Pending.DeleteAnswer(ctx, m.tenant, id, name) // otherwise the text is deleted with the session
			return text, ""
		case err != nil && ctx.Err() == nil:
			m.opts.Metrics.FailedOpen(label.StepWritCommand)
			return "", late
		case looks > 0:
			return "", late
		}
		select {
		case <-ctx.Done():
			return "", late
		case <-time.After(answerRetry):
		}
	}
}

// pendingReplies counts the replies whose commands are not executed yet, by session.
type pendingReplies struct {
	mu        sync.Mutex
	bySession map[session.ID]*pendingCommands
}

// pendingCommands counts the replies of one session.
type pendingCommands struct {
	replies int
	done    chan struct{} // closed when replies is zero
}

// add counts a reply. Call add before the client can send the next turn.
func (p *pendingReplies) add(id session.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.bySession[id]
	if e == nil {
		e = &pendingCommands{done: make(chan struct{})}
		p.bySession[id] = e
	}
	e.replies++
}

// end removes one reply of a session from the count, and closes done when the count is zero.
func (p *pendingReplies) end(id session.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.bySession[id]
	if e == nil {
		return
	}
	if e.replies--; e.replies == 0 {
		close(e.done)
		delete(p.bySession, id)
	}
}

// get returns the count of a session, nil for zero.
func (p *pendingReplies) get(id session.ID) *pendingCommands {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bySession[id]
}
