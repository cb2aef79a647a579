package server

import (
	"context"
	"os"
	"sync"
	"time"

	"precept/admin"
	"precept/configs"
	"precept/internal/label"
	"precept/store"
	"precept/store/sqlite"
)

// accountEvery is how often the account is drawn up anew for whoever looks at it; of a spool of
// more than accountMost bytes, which would have to be read, it is not.
const (
	accountEvery = 5 * time.Second
	accountMost  = 256 << 20
)

// vitals is what the health page is made of.
type vitals struct {
	*parts
	server  *Server
	started time.Time

	mu      sync.Mutex
	at      time.Time
	account admin.Account
	stored  admin.Stored
}

// health implements admin.Options.Health.
func (v *vitals) health(ctx context.Context) admin.Health {
	cfg, b, t, learned := v.server.shown.Load(), ReadBuild(), &v.store.Tally, &v.learner.Tally
	h := admin.Health{
		Figures: v.lessonFigures(), Version: b.Version, Revision: b.Revision, Go: b.Go,
		PID: os.Getpid(), Started: v.started, Hash: cfg.Hash(), Fault: v.server.faults.get(),
		Spool: admin.Spool{
			Dir: v.spool, Bytes: v.store.SpoolBytes(), Limit: int64(cfg.Limits.SpoolBytes),
			Waiting: t.Pending.Load(), Lag: v.store.Lag().Seconds(),
		},
		Since: admin.Since{
			Exchanges: t.Exchanges.Load(), Samples: learned.Samples.Load(),
			Closed: learned.Closed.Load(), Told: learned.Told.Load(), OptedOut: t.OptedOut.Load(),
			Redactions: t.Redactions.Load(), Incomplete: t.Incomplete.Load(),
			WriteErrors: t.WriteErrors.Load(), InMemory: v.store.Sessions(),
			Dropped: map[string]int64{
				"full": t.DroppedFull.Load(), "bad": t.DroppedBad.Load(),
				"quota": t.DroppedQuota.Load(), "read_only": t.DroppedReadOnly.Load(),
				"copies_cut": t.CopiesCut.Load(),
			},
		},
	}
	var err error
	if h.Config, err = configs.Settings(cfg); err != nil {
		v.failed(label.StepHealth, err)
	}
	h.Account, h.Store = v.look(ctx)
	h.Store.Healthy = v.store.Healthy()
	return h
}

// look draws up the account and asks the store, at most every few seconds however many look.
func (v *vitals) look(ctx context.Context) (admin.Account, admin.Stored) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if now := v.Now(); v.at.IsZero() || now.Sub(v.at) >= accountEvery {
		v.at, v.account, v.stored = now, v.draw(), admin.Stored{
			Kind: kindOf(v.backend), Notice: v.notice,
		}
		v.ask(ctx)
	}
	return v.account, v.stored
}

// draw reads the account of the data directory.
func (v *vitals) draw() admin.Account {
	a := admin.Account{Balanced: true}
	a.Dropped = map[string]int64{}
	switch {
	case v.spool == "":
		a.Trouble = "without a spool there is no account"
		return a
	case v.store.SpoolBytes() > accountMost:
		a.Trouble = "the spool holds more than 256 MiB, which would have to be read; precept doctor does it"
		return a
	}
	books, err := store.ReadAccount(v.spool, true)
	if err != nil {
		a.Trouble = err.Error()
		return a
	}
	a.Account = books
	sum := books.Stored + books.Spooled + books.Incomplete
	for _, n := range books.Dropped {
		sum += n
	}
	a.Balanced = sum == books.Admitted
	return a
}

// ask asks the store what it holds.
func (v *vitals) ask(ctx context.Context) {
	open, ok := v.backend.(losses)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	var err error
	if v.stored.Counts, err = open.Stats(ctx); err == nil {
		v.account.Unsampled, err = open.Unsampled(ctx)
	}
	if err == nil {
		_, v.account.SetAside, err = open.DeadLetters(ctx, 1)
	}
	if err != nil {
		v.stored.Trouble = err.Error()
	}
}

// kindOf is the store in a word.
func kindOf(b Backend) string {
	switch b.(type) {
	case *sqlite.Store:
		return "sqlite"
	case store.Volatile:
		return "memory"
	default:
		return "redis"
	}
}
