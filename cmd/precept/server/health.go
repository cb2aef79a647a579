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

// accountInterval is the minimum time between two reads of the store's row counts and of the account. The account is
// the outbox's count of all exchanges by result.
const accountInterval = 5 * time.Second

// health caches the health page's data for accountInterval.
type health struct {
	services *services
	server   *Server
	started  time.Time
	outbox   string // "" without an outbox

	mu        sync.Mutex
	readAt    time.Time
	account   admin.Account
	storeInfo admin.StoreInfo
}

// read implements admin.Program.Health.
func (h *health) read(ctx context.Context) admin.Health {
	v := h.services
	cfg, b, t, learned := h.server.effective.Load(), ReadBuild(), &v.store.Metrics, &v.learner.Metrics
	page := admin.Health{
		Figures: v.lessonFigures(), Version: b.Version, Revision: b.Revision, Go: b.Go,
		PID: os.Getpid(), Started: h.started, Hash: cfg.Hash(), ReloadError: h.server.reload.lastError.get(),
		Outbox: admin.Outbox{
			Dir: h.outbox, Bytes: v.store.OutboxBytes(), Limit: int64(cfg.Limits.OutboxBytes),
			Waiting: t.Pending.Load(), Lag: v.store.Lag().Seconds(),
		},
		SinceStart: admin.SinceStart{
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
		v.failures.report(label.StepHealth, err)
	}
	page.Account, page.Store = h.refresh(ctx)
	page.Store.Healthy = v.store.Healthy()
	return page
}

func (h *health) refresh(ctx context.Context) (admin.Account, admin.StoreInfo) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := h.services.tools.Now(); h.readAt.IsZero() || now.Sub(h.readAt) >= accountInterval {
		h.readAt, h.account = now, h.readAccount()
		h.storeInfo = admin.StoreInfo{Kind: backendKind(h.services.backend), Notice: h.services.memoryReason}
		h.readStoreCounts(ctx)
	}
	return h.account, h.storeInfo
}

// readAccount reads the account. Balanced is false if the counts by result do not add up to the admitted exchanges.
func (h *health) readAccount() admin.Account {
	a := admin.Account{Balanced: true}
	a.Dropped = map[string]int64{}
	account, ok := h.services.store.Account()
	if !ok {
		a.Problem = "without an outbox, exchanges are not counted"
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

func (h *health) readStoreCounts(ctx context.Context) {
	counts := h.services.durable
	if counts == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	var err error
	if h.storeInfo.Counts, err = counts.Stats(ctx); err == nil {
		h.account.Unsampled, err = counts.CountUnsampled(ctx)
	}
	if err == nil {
		_, h.account.SetAside, err = counts.DeadLetters(ctx, 1)
	}
	if err != nil {
		h.storeInfo.Problem = err.Error()
	}
	if h.storeInfo.Notice == "" {
		h.storeInfo.Notice = ClockWarning(h.services.tools.ClockDifference(ctx, h.services.backend))
	}
}

func backendKind(b Backend) string {
	switch b.(type) {
	case *sqlite.Store:
		return "sqlite"
	case store.NullBackend:
		return "memory"
	default:
		return "redis"
	}
}

// Build describes this binary's version.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
}

// version is set by the linker (-X) for a binary built without a Git directory.
var version string

// ReadBuild returns this binary's version.
func ReadBuild() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Build{Version: cmp.Or(version, "unknown")}
	}
	return newBuild(version, info)
}

const shortRevision = 12

// newBuild returns the first known version in this list: the linker's stamp, the module version, "devel-" with the
// commit, and "(devel)".
func newBuild(stamped string, info *debug.BuildInfo) Build {
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
	const unknown = "(devel)" // Go's version for a binary without one
	if b.Version == "" && info.Main.Version != unknown {
		b.Version = info.Main.Version
	}
	if b.Version == "" && b.Revision != "" {
		b.Version = "devel-" + b.Revision[:min(len(b.Revision), shortRevision)]
	}
	b.Version = cmp.Or(b.Version, unknown)
	return b
}
