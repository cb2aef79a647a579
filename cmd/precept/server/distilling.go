package server

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"precept/configs"
	"precept/distill"
	"precept/inject/bank"
	"precept/inject/lesson"
	"precept/internal/label"
	"precept/internal/redact"
	"precept/internal/session"
)

// DistillStore is a store as the distiller needs it.
type DistillStore interface {
	distill.Source
	distill.Notes
	Session(ctx context.Context, tenant string, id session.ID) (session.Row, bool, error)
}

// Distiller is a distiller that is put together anew for each run, so that none begins with what
// another one left behind.
type Distiller struct {
	Options distill.Options
}

// Once distils what is new.
func (d *Distiller) Once(ctx context.Context) (distill.Summary, error) {
	return distill.New(d.Options).Once(ctx)
}

// Follow distils again and again until ctx is done. What goes wrong is told, and tried again next
// time.
func (d *Distiller) Follow(ctx context.Context, every time.Duration, tell func(distill.Summary, error)) error {
	for ctx.Err() == nil {
		if sum, err := d.safely(ctx); ctx.Err() == nil {
			tell(sum, err)
		}
		_ = Pause(ctx, every) // it ends with ctx
	}
	return nil
}

// safely distils once; a panic is an error.
func (d *Distiller) safely(ctx context.Context) (sum distill.Summary, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("distill: panic: %s", redact.PanicKind(v))
		}
	}()
	return d.Once(ctx)
}

// Pause waits, unless ctx ends first.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// OpenPlace opens where the lessons lie.
func (w *Tools) OpenPlace(cfg *configs.Config) (bank.Place, func(), error) {
	place, err := w.OpenBank(cfg)
	switch {
	case err != nil:
		return nil, nil, err
	case place == nil:
		return bank.Directory(cfg.Lessons), func() {}, nil
	}
	return place, func() { _ = place.Close() }, nil
}

// NewDistiller puts a distiller together.
func (w *Tools) NewDistiller(
	cfg *configs.Config, st DistillStore, place bank.Place,
) (*Distiller, error) {
	var id [8]byte
	if _, err := io.ReadFull(w.Random, id[:]); err != nil {
		return nil, fmt.Errorf("name the distiller: %w", err)
	}
	judge, err := w.newJudge(cfg)
	if err != nil {
		return nil, err
	}
	resolve := func(e lesson.Evidence) bool { return resolves(st, e) }
	return &Distiller{distill.Options{
		Source: st, Notes: st, Judge: judge, Auto: cfg.Distill.Gate == "auto",
		Parallel: cfg.Distill.Parallel, Now: w.Now, Owner: hex.EncodeToString(id[:]),
		Bank: w.Writer(place, func(o *bank.Options) { o.Checks.Resolve = resolve }),
		Budget: distill.Budget{
			Tokens: int64(cfg.Distill.MaxTokens), Cost: cfg.Distill.MaxCost,
			PerInput: cfg.Distill.PriceInput, PerOut: cfg.Distill.PriceOutput,
		},
	}}, nil
}

// resolves says whether a reference leads to a session of any tenant.
func resolves(st DistillStore, e lesson.Evidence) bool {
	id, ok := session.ParseID(e.Ref)
	if !ok || e.Kind != "conversation" && e.Kind != "run" {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), reachLimit)
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

// newJudge makes the configured judge, nil for the rules.
func (w *Tools) newJudge(cfg *configs.Config) (distill.Judge, error) {
	if cfg.Distill.Judge == "rules" {
		return nil, nil //nolint:nilnil // no judge: the rules
	}
	prompts, err := distill.LoadPrompts(cfg.Distill.Prompts)
	if err != nil {
		return nil, err
	}
	return distill.NewModel(distill.ClientOptions{
		URL: cfg.Distill.Judge, Model: cfg.Distill.Model, Key: cfg.Distill.APIKey.Reveal(),
		HTTP: &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment}},
		Now:  w.Now, Wait: Pause,
	}, prompts), nil
}

// distils adds the distiller to the service's owners.
func (p *parts) distils(cfg *configs.Config, st DistillStore) error {
	d, err := p.NewDistiller(cfg, st, p.place)
	if err != nil {
		return err
	}
	d.Options.Settled = true
	d.Options.Failed = func(session string, err error) {
		p.failed(label.StepDistill, fmt.Errorf("session %s: %w", session, err))
	}
	p.owners = append(p.owners, func(ctx context.Context) error {
		if Pause(ctx, min(cfg.Distill.Every, 10*time.Second)) != nil { // it was stopped
			return nil //nolint:nilerr // a stop is no failure
		}
		return d.Follow(ctx, cfg.Distill.Every, func(s distill.Summary, err error) {
			if ended := p.endTrials(ctx, d); ended != nil {
				p.failed(label.StepTrials, ended)
			}
			switch {
			case err != nil:
				p.failed(label.StepDistill, err)
			case s.Judged+s.Proposed+s.Merged > 0:
				p.log.Info(
					"distilled", "read", s.Read, "judged", s.Judged, "proposed", s.Proposed,
					"merged", s.Merged, "refused", Total(s.Refused), "why",
					slices.Sorted(maps.Keys(s.Refused)), "tokens", s.Tokens,
				)
			}
		})
	})
	return nil
}

// Total sums counts that are kept by reason.
func Total(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}
