package proxy

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"precept/session"
	"precept/store"
)

// The bounds of waiting for answers to an agent's /lesson commands.
const (
	writPause  = 40 * time.Millisecond // a turn may wait for the answers to the reply before it
	maxAnswers = 8                     // that wait in a session for its next turn
	maxOwed    = 4                     // replies whose answers are awaited from another replica
	lookAgain  = 8 * time.Millisecond  // how soon one that has not come is looked for again
)

// PendingTexts keeps texts with a session for whichever replica takes its next turn.
type PendingTexts interface {
	Leave(ctx context.Context, tenant string, id session.ID, name, text string) error
	// Take gives what was left under a name, once.
	Take(ctx context.Context, tenant string, id session.ID, name string) (text string, ok bool, err error)
}

// mailbox is where a session finds the answers to its commands.
type mailbox struct {
	p      *Proxy
	tenant string
	ses    *store.Session
}

func (s *sender) mailbox() mailbox { return mailbox{s.p, s.who.tenant, s.ses} }

// deliver puts answers into the record, for the session's next turn. Lock the record.
func deliver(rec *session.Record, answers []string) {
	rec.Answers = append(rec.Answers, answers...)
	rec.Answers = rec.Answers[max(0, len(rec.Answers)-maxAnswers):]
	rec.Dirty = true
}

// owe notes that the answers to a request's reply will come through the store, or that none will
// after all.
func (m mailbox) owe(request string, some bool) {
	if m.p.opts.Pending == nil {
		return
	}
	m.ses.Lock()
	defer m.ses.Unlock()
	m.ses.Owed = slices.DeleteFunc(m.ses.Owed, func(id string) bool { return id == request })
	if some {
		m.ses.Owed = append(m.ses.Owed, request)
		m.ses.Owed = m.ses.Owed[max(0, len(m.ses.Owed)-maxOwed):]
	}
	m.ses.Dirty = true
}

// collect waits for the answers to the reply before this turn, wherever that was given, and puts
// them into the record. What takes longer is looked for once more in the next turn.
func (m mailbox) collect(ctx context.Context) {
	busy := m.p.commands.pendingOf(m.ses.ID)
	m.ses.Lock()
	owed := slices.Clone(m.ses.Owed)
	m.ses.Unlock()
	if busy == nil && len(owed) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, writPause)
	defer cancel()
	busy.wait(ctx)
	if m.p.opts.Pending == nil {
		return
	}
	for _, request := range owed {
		text, late := m.letter(ctx, request)
		var list []string
		_ = json.Unmarshal([]byte(text), &list) // "" where none came
		m.ses.Lock()
		m.ses.Owed = slices.DeleteFunc(m.ses.Owed, func(id string) bool { return id == request || id == late })
		if len(list) == 0 && late != "" {
			m.ses.Owed = append(m.ses.Owed, late)
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
		text, ok, err := m.p.opts.Pending.Take(ctx, m.tenant, m.ses.ID, name)
		switch {
		case ok:
			return text, ""
		case err != nil && ctx.Err() == nil:
			m.p.opts.Metrics.FailedOpen("writ")
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
