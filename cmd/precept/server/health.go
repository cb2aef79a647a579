package server

import (
	"cmp"
	"context"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"precept/admin"
	"precept/configs"
	"precept/internal/label"
	"precept/store"
	"precept/store/sqlite"
)

// accountEvery is the minimum time between two reads of the account (the counts of all exchanges by result) and of the
// store's counts.
const accountEvery = 5 * time.Second

// health computes the health page. The page reads the account and the store's counts at most once in accountEvery.
type health struct {
	services *services
	server   *Server
	started  time.Time
	outbox   string // file of the durable queue; "" means no queue

	mu      sync.Mutex
	readAt  time.Time // time at which account and stored were read
	account admin.Account
	stored  admin.Stored
}

// read implements admin.Program.Health.
func (h *health) read(ctx context.Context) admin.Health {
	v := h.services
	cfg, b, t, learned := h.server.effective.Load(), ReadBuild(), &v.store.Tally, &v.learner.Tally
	page := admin.Health{
		Figures: v.lessonFigures(), Version: b.Version, Revision: b.Revision, Go: b.Go,
		PID: os.Getpid(), Started: h.started, Hash: cfg.Hash(), Fault: h.server.reload.fault.get(),
		Spool: admin.Spool{
			Dir: h.outbox, Bytes: v.store.OutboxBytes(), Limit: int64(cfg.Limits.OutboxBytes),
			Waiting: t.Pending.Load(), Lag: v.store.Lag().Seconds(),
		},
		Since: admin.Since{
			Exchanges: t.Exchanges.Load(), Samples: learned.Samples.Load(),
			Closed: learned.Closed.Load(), Rewarded: learned.Rewarded.Load(), OptedOut: t.OptedOut.Load(),
			Redactions: t.Redactions.Load(), Incomplete: t.Incomplete.Load(),
			WriteErrors: t.WriteErrors.Load(), InMemory: v.store.Sessions(),
			Dropped: map[string]int64{
				"full": t.DroppedFull.Load(), "bad": t.DroppedBad.Load(),
				"quota": t.DroppedQuota.Load(), "tenant": t.DroppedTenant.Load(), "read_only": t.DroppedReadOnly.Load(),
				"copies_cut": t.CopiesCut.Load(),
			},
		},
	}
	var err error
	if page.Config, err = configs.Settings(cfg); err != nil {
		v.failures.failed(label.StepHealth, err)
	}
	page.Account, page.Store = h.refresh(ctx)
	page.Store.Healthy = v.store.Healthy()
	return page
}

// refresh returns the account and the store's counts, and reads both again if the last read is accountEvery old.
func (h *health) refresh(ctx context.Context) (admin.Account, admin.Stored) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := h.services.tools.Now(); h.readAt.IsZero() || now.Sub(h.readAt) >= accountEvery {
		h.readAt, h.account = now, h.readAccount()
		h.stored = admin.Stored{Kind: kindOf(h.services.backend), Notice: h.services.memoryReason}
		h.askStore(ctx)
	}
	return h.account, h.stored
}

// readAccount reads the account from the outbox. Balanced is false if the counts of the results do not add up to the
// number of admitted exchanges.
func (h *health) readAccount() admin.Account {
	a := admin.Account{Balanced: true}
	a.Dropped = map[string]int64{}
	account, ok := h.services.store.Account()
	if !ok {
		a.Trouble = "without an outbox there is no account"
		return a
	}
	a.Account = account
	sum := account.Stored + account.Spooled + account.Incomplete
	for _, n := range account.Dropped {
		sum += n
	}
	a.Balanced = sum == account.Admitted
	return a
}

// askStore asks the store for the numbers of its rows.
func (h *health) askStore(ctx context.Context) {
	counts, ok := h.services.backend.(rowCounts)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	var err error
	if h.stored.Counts, err = counts.Stats(ctx); err == nil {
		h.account.Unsampled, err = counts.Unsampled(ctx)
	}
	if err == nil {
		_, h.account.SetAside, err = counts.DeadLetters(ctx, 1)
	}
	if err != nil {
		h.stored.Trouble = err.Error()
	}
}

// kindOf returns the kind of a backend in one word.
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

// Build is the version of the binary.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
}

// version is the version that the linker writes into the binary: -X precept/cmd/precept/server.version=v1.2.3. Such a
// binary has a version although the build had no Git directory, as in an image.
var version string

// ReadBuild returns the version of this binary.
func ReadBuild() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Build{Version: cmp.Or(version, "unknown")}
	}
	return buildOf(version, info)
}

// shortRevision is the number of digits of a commit in a version.
const shortRevision = 12

// buildOf returns the version of a binary from the version that the linker wrote and the build information of Go. The
// version is the first of these: the linker's, the version of the module, "devel-" with the commit, "(devel)".
func buildOf(stamped string, info *debug.BuildInfo) Build {
	b := Build{Version: stamped, Go: info.GoVersion}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	const unknown = "(devel)" // Go's word for a module without a version
	if b.Version == "" && info.Main.Version != unknown {
		b.Version = info.Main.Version
	}
	if b.Version == "" && b.Revision != "" {
		b.Version = "devel-" + b.Revision[:min(len(b.Revision), shortRevision)]
	}
	b.Version = cmp.Or(b.Version, unknown)
	return b
}
