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

// The bounds of waiting for answers to an agent's /lesson commands.
const (
	writPause  = 40 * time.Millisecond // a turn may wait for the answers to the reply before it
	maxAnswers = 8                     // that wait in a session for its next turn
	maxOwed    = 4                     // replies whose answers are awaited from another replica
	lookAgain  = 8 * time.Millisecond  // how soon one that has not come is looked for again
)

// mailbox is where a session finds the answers to its commands.
type mailbox struct {
	opts    *Options
	pending *pendingReplies
	tenant  string
	ses     *store.Session
}

// deliver puts answers into the record, for the session's next turn. Lock the record.
func deliver(rec *session.Record, answers []string) {
	rec.Mailbox.Answers = append(rec.Mailbox.Answers, answers...)
	rec.Mailbox.Answers = rec.Mailbox.Answers[max(0, len(rec.Mailbox.Answers)-maxAnswers):]
	rec.State.Dirty = true
}

// owe notes that the answers to a request's reply will come through the store, or that none will
// after all.
func (m mailbox) owe(request string, some bool) {
	if m.opts.Pending == nil {
		return
	}
	m.ses.Lock()
	defer m.ses.Unlock()
	m.ses.Mailbox.Owed = slices.DeleteFunc(m.ses.Mailbox.Owed, func(id string) bool { return id == request })
	if some {
		m.ses.Mailbox.Owed = append(m.ses.Mailbox.Owed, request)
		m.ses.Mailbox.Owed = m.ses.Mailbox.Owed[max(0, len(m.ses.Mailbox.Owed)-maxOwed):]
	}
	m.ses.State.Dirty = true
}

// collect waits for the answers to the reply before this turn, wherever that was given, and puts
// them into the record. What takes longer is looked for once more in the next turn.
func (m mailbox) collect(ctx context.Context) {
	busy := m.pending.of(m.ses.Identity.ID)
	m.ses.Lock()
	owed := slices.Clone(m.ses.Mailbox.Owed)
	m.ses.Unlock()
	if busy == nil && len(owed) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, writPause)
	defer cancel()
	if busy != nil {
		select {
		case <-busy.done:
		case <-ctx.Done(): // what takes longer is answered a turn later
		}
	}
	if m.opts.Pending == nil {
		return
	}
	for _, request := range owed {
		text, late := m.letter(ctx, request)
		var list []string
		_ = json.Unmarshal([]byte(text), &list) // "" where none came
		m.ses.Lock()
		m.ses.Mailbox.Owed = slices.DeleteFunc(m.ses.Mailbox.Owed, func(id string) bool { return id == request || id == late })
		if len(list) == 0 && late != "" {
			m.ses.Mailbox.Owed = append(m.ses.Mailbox.Owed, late)
		}
		deliver(m.ses.Record, list)
		m.ses.Unlock()
	}
}

// lateMark stands before a request whose answer was waited for once: it is looked for once more,
// without a wait.
const lateMark = "-"

// letter takes the answers to one reply. late is what is owed then, where they have not come.
func (m mailbox) letter(ctx context.Context, request string) (text, late string) {
	name, again := strings.CutPrefix(request, lateMark)
	for {
		text, ok, err := m.opts.Pending.Take(ctx, m.tenant, m.ses.Identity.ID, name)
		switch {
		case ok:
			return text, ""
		case err != nil && ctx.Err() == nil:
			m.opts.Metrics.FailedOpen(label.StepWrit)
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

// pendingReplies are the replies whose commands are not executed yet, by session.
type pendingReplies struct {
	mu   sync.Mutex
	busy map[session.ID]*pendingCommands
}

// pendingCommands are one session's.
type pendingCommands struct {
	replies int
	done    chan struct{} // closed when there are none left
}

// begin counts a reply with commands in, before its client can send the next turn.
func (s *pendingReplies) begin(id session.ID) {
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
func (s *pendingReplies) end(id session.ID) {
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

// of is what is pending of a session; nil for nothing.
func (s *pendingReplies) of(id session.ID) *pendingCommands {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy[id]
}
