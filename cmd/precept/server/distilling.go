package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"time"

	"precept/configs"
	"precept/distill"
	"precept/inject/bank"
	"precept/inject/lesson"
	"precept/internal/file"
	"precept/internal/label"
	"precept/internal/redact"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store"
)

// DistillStore holds the sessions and notes for the distiller, which proposes lessons from closed sessions.
type DistillStore interface {
	distill.Source
	distill.Notes
	Session(ctx context.Context, tenant string, id session.ID) (session.Row, bool, error)
}

// cachedSource reads exchanges through the store's cache.
type cachedSource struct {
	DistillStore
	store *store.Store
}

func (c cachedSource) Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error) {
	return c.store.Exchanges(ctx, tenant, id)
}

// filteredSource hides opted-out content.
type filteredSource struct {
	optOutFilter

	tenants func(ctx context.Context) ([]string, error)
}

// Tenants implements distill.Source.
func (s filteredSource) Tenants(ctx context.Context) ([]string, error) { return s.tenants(ctx) }

// Distiller distils closed sessions into proposed lessons.
type Distiller struct {
	Options distill.Options
	// changed returns the tenants with sessions that closed since the last call. complete is false if tenants may be
	// missing. If changed is nil, every run reads all tenants.
	changed     func() (tenants []string, complete bool)
	nextFullRun time.Time    // next run that reads all tenants
	lastError   atomicString // last run's error; "" if the run succeeded
}

// fullRunInterval is the time between two runs that read all tenants, to find sessions that a replica closed before it
// stopped. Other runs read only the tenants with sessions that this process has closed.
const fullRunInterval = 24 * time.Hour

func (d *Distiller) selectTenants() {
	d.Options.Select.Tenants = nil
	if d.changed == nil {
		return
	}
	names, ok := d.changed()
	if now := d.Options.Now(); !ok || !now.Before(d.nextFullRun) {
		d.nextFullRun = now.Add(fullRunInterval)
		return
	}
	d.Options.Select.Tenants = append([]string{}, names...)
}

// noteResult keeps the run's error for the dashboard. If this run is incomplete, the next run reads all tenants,
// because changed does not return this run's tenants again.
func (d *Distiller) noteResult(s distill.Summary, err error) {
	text := ""
	if err != nil && !errors.Is(err, context.Canceled) {
		text = err.Error()
	}
	d.lastError.set(text)
	if err != nil || s.Stopped != "" || len(s.Refused)+len(s.Busy) > 0 {
		d.nextFullRun = time.Time{}
	}
}

// NewDistiller returns a Distiller that reads st's sessions, without opted-out content, and writes lessons to storage.
func (t *Tools) NewDistiller(cfg *configs.Config, st DistillStore, optOut func() *sample.OptOut, storage bank.Storage) (*Distiller, error) {
	var id [8]byte
	if _, err := io.ReadFull(t.Random, id[:]); err != nil {
		return nil, fmt.Errorf("generate the distiller's name: %w", err)
	}
	judge, err := t.newJudge(cfg)
	if err != nil {
		return nil, err
	}
	resolve := func(e lesson.Evidence) bool { return isEvidenceStored(st, e) }
	return &Distiller{Options: distill.Options{
		Source: filteredSource{newOptOutFilter(st, optOut, t.OnDamaged), st.Tenants}, Notes: withClaims(cfg, st), Judge: judge, Auto: cfg.Distill.Gate == "auto",
		Parallel: cfg.Distill.Parallel, Select: distill.Selection{Triage: true}, Now: t.Now, Owner: hex.EncodeToString(id[:]),
		Bank: t.NewBank(storage, withLessonLimit(cfg), func(o *bank.Options) { o.Checks.Resolve = resolve }),
		Budget: distill.Budget{
			Tokens: int64(cfg.Distill.MaxTokens), Cost: cfg.Distill.MaxCost,
			InputPrice: cfg.Distill.PriceInput, OutputPrice: cfg.Distill.PriceOutput,
		},
	}}, nil
}

// fileClaims implements claims (a distiller's exclusive right to a tenant) for SQLite as file locks next to the
// database. The system releases a killed process's lock. fileClaims is not safe for concurrent use.
type fileClaims struct {
	distill.Notes
	store string // store path
	held  map[string]*os.File
}

// withClaims adds claims to the notes: leases for Redis, because the replicas may run on several machines, and file
// locks for SQLite.
func withClaims(cfg *configs.Config, st distill.Notes) distill.Notes {
	if IsRedis(cfg.StoreURL()) {
		return st
	}
	return &fileClaims{Notes: st, store: cfg.StoreURL(), held: map[string]*os.File{}}
}

func (c *fileClaims) path(name string) string {
	sum := sha256.Sum256([]byte(name))
	return c.store + "-" + hex.EncodeToString(sum[:6]) + ".lock"
}

// AcquireLease locks the file for a name, and returns false if another process has the lock.
func (c *fileClaims) AcquireLease(_ context.Context, name, _ string, _ time.Time, _ time.Duration) (bool, error) {
	if c.held[name] != nil {
		return true, nil
	}
	for {
		f, err := os.OpenFile(c.path(name), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return false, fmt.Errorf("claim %s: %w", name, err)
		}
		if err := file.TryLock(f); err != nil {
			_ = f.Close()
			if errors.Is(err, file.ErrLocked) {
				return false, nil
			}
			return false, fmt.Errorf("claim %s: %w", name, err)
		}
		lockedInfo, err := f.Stat()
		pathInfo, pathErr := os.Stat(f.Name())
		if err == nil && pathErr == nil && os.SameFile(lockedInfo, pathInfo) {
			c.held[name] = f
			return true, nil
		}
		_ = f.Close() // another process has removed the file since OpenFile
	}
}

// ReleaseLease deletes the lock file and releases the lock.
func (c *fileClaims) ReleaseLease(_ context.Context, name, _ string) error {
	f := c.held[name]
	if f == nil {
		return nil
	}
	delete(c.held, name)
	return errors.Join(os.Remove(f.Name()), f.Close())
}

// isEvidenceStored reports whether any tenant has the session or run that a lesson names as evidence.
func isEvidenceStored(st DistillStore, e lesson.Evidence) bool {
	id, ok := session.ParseID(e.Ref)
	if !ok || e.Kind != "conversation" && e.Kind != "run" {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), redisTimeout)
	defer cancel()
	tenants, err := st.Tenants(ctx)
	if err != nil {
		return false
	}
	for _, t := range tenants {
		if _, ok, err := st.Session(ctx, t, id); ok && err == nil {
			return true
		}
	}
	return false
}

// newJudge returns the configured model that rates sessions; nil means built-in rules.
func (t *Tools) newJudge(cfg *configs.Config) (distill.Judge, error) {
	if cfg.Distill.Judge == "rules" {
		return nil, nil //nolint:nilnil // without a judge, built-in rules rate the sessions
	}
	prompts, err := distill.LoadPrompts(cfg.Distill.Prompts)
	if err != nil {
		return nil, fmt.Errorf("distill.prompts: %w", err)
	}
	return distill.NewModel(t.judgeClient(cfg), prompts), nil
}

func (t *Tools) judgeClient(cfg *configs.Config) distill.ClientOptions {
	return distill.ClientOptions{
		URL: cfg.Distill.Judge, Model: cfg.Distill.Model, Key: cfg.Distill.APIKey.Reveal(),
		HTTP: &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment}},
		Now:  t.Now, Wait: Sleep, OnWait: t.OnJudgeWait,
	}
}

// AskPhrases asks the judge for trigger phrases, given sentences that resemble the lesson.
func (t *Tools) AskPhrases(ctx context.Context, cfg *configs.Config, l *lesson.Lesson, sentences []string) ([]string, distill.Usage, error) {
	prompts, err := distill.LoadPrompts(cfg.Distill.Prompts)
	if err != nil {
		return nil, distill.Usage{}, fmt.Errorf("distill.prompts: %w", err)
	}
	return distill.AskPhrases(ctx, t.judgeClient(cfg), prompts, l, sentences)
}

// Once distils the selected sessions once.
func (d *Distiller) Once(ctx context.Context) (distill.Summary, error) {
	return distill.New(d.Options).RunOnce(ctx)
}

// Follow distils once per interval until ctx ends, and passes each result to report.
func (d *Distiller) Follow(ctx context.Context, interval time.Duration, report func(distill.Summary, error)) error {
	for ctx.Err() == nil {
		d.selectTenants()
		sum, err := d.onceWithoutPanic(ctx)
		d.noteResult(sum, err)
		if ctx.Err() == nil {
			report(sum, err)
		}
		_ = Sleep(ctx, interval) // ends with ctx
	}
	return nil
}

func (d *Distiller) onceWithoutPanic(ctx context.Context) (sum distill.Summary, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("distill: panic: %s", redact.SafePanicText(v))
		}
	}()
	return d.Once(ctx)
}

// distillerWorker returns a worker that runs the distiller. After each run, the worker ends the proposed lessons'
// trials that have a result (endTrials).
func distillerWorker(cfg *configs.Config, d *Distiller, gate *trialGate, f *failures) func(context.Context) error {
	d.changed = gate.learner.ChangedTenants
	d.Options.Select.ClosedOnly = true
	d.Options.OnFailure = func(session string, err error) {
		f.report(label.StepDistill, fmt.Errorf("session %s: %w", session, err))
	}
	return func(ctx context.Context) error {
		// The first run does not wait for the whole distill.every.
		if Sleep(ctx, min(cfg.Distill.Every, 10*time.Second)) != nil { // the server stops
			return nil //nolint:nilerr // a shutdown is not a failure
		}
		return d.Follow(ctx, cfg.Distill.Every, func(s distill.Summary, err error) {
			if endErr := gate.endTrials(ctx, d); endErr != nil {
				f.report(label.StepTrials, endErr)
			}
			if err != nil {
				f.report(label.StepDistill, err)
			}
			if s.Judged+s.Failed+s.Proposed+s.Merged > 0 {
				f.log.Info(
					"distilled", "read", s.Read, "judged", s.Judged, "failed", s.Failed, "set_aside", s.SetAside,
					"proposed", s.Proposed, "merged", s.Merged, "refused", SumCounts(s.Refused), "why",
					slices.Sorted(maps.Keys(s.Refused)), "tokens", s.Tokens, "cost", s.Cost, "stopped", s.Stopped,
				)
			}
		})
	}
}

// SumCounts adds up counts by reason.
func SumCounts(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

// Sleep waits for the duration d, or returns the error of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
