package proxy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"time"

	"precept/bandit"
	"precept/configs"
	"precept/inject/bank"
	"precept/inject/lesson"
	"precept/internal/session"
	"precept/proxy/trace"
	"precept/store"
)

// Options are what the data face is made of.
type Options struct {
	Config  *configs.Config
	Store   *store.Store
	Beliefs func(tenant string) *bandit.Chooser // what the chooser believes; it asks nobody
	Book    func() *lesson.Book
	Now     func() time.Time
	Rand    io.Reader // of ids; safe for concurrent use
	Salt    string    // of the coins, where the configuration names none
	Secret  []byte    // of tenant names under by-credential
	Unsure  bool      // Salt and Secret are not the fleet's: nothing may rest on them until Rekey brings those
	Log     *slog.Logger
	Metrics *Metrics
	Tracer  *trace.Tracer // nil: no traces

	Bank      Bank         // the lessons that agents write for themselves; nil: /v1/lessons is the upstream's
	Consulted *Consulted   // how often each was met
	Pending   PendingTexts // what waits for the next turn of a session, at whichever replica; nil: there is one
}

// Bank is where the lessons of agents are kept: the one that everything else writes to.
type Bank interface {
	List(ctx context.Context) (*lesson.Book, []lesson.Problem, error)
	Propose(ctx context.Context, p bank.Proposal) (bank.Result, error)
	Revise(ctx context.Context, slug string, p bank.Proposal) (bank.Result, error)
	Withdraw(ctx context.Context, slug string, scope lesson.Scope, by string) error
}

// PendingTexts keeps texts with a session for whichever replica takes its next turn.
type PendingTexts interface {
	Leave(ctx context.Context, tenant string, id session.ID, name, text string) error
	// Take gives what was left under a name, once.
	Take(ctx context.Context, tenant string, id session.ID, name string) (text string, ok bool, err error)
}

// newID mints an id: a prefix and 12 random bytes.
func (o *Options) newID(prefix string) string {
	b := o.entropy()
	return prefix + hex.EncodeToString(b[:12])
}

// entropy is 16 random bytes.
func (o *Options) entropy() (b [16]byte) {
	if _, err := io.ReadFull(o.Rand, b[:]); err != nil {
		// The system's random source does not fail. If it does, the time still tells ids apart.
		sum := sha256.Sum256([]byte(o.Now().String()))
		copy(b[:], sum[:])
	}
	return b
}
