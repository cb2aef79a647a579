package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"precept/bank"
	"precept/configs"
	"precept/distill"
	"precept/lesson"
	"precept/session"
	"precept/store/sqlite"
)

// distillStore is a store as the distiller needs it.
type distillStore interface {
	distill.Source
	distill.Notes
	Session(ctx context.Context, tenant string, id session.ID) (session.Row, bool, error)
}

// distiller is a distiller that is put together anew for each run, so that none begins with what
// another one left behind.
type distiller struct {
	o distill.Options
}

func (d *distiller) once(ctx context.Context) (distill.Summary, error) {
	run, err := distill.New(d.o)
	if err != nil {
		return distill.Summary{}, err
	}
	return run.Once(ctx)
}

// follow distils again and again until ctx is done. What goes wrong is told, and tried again next
// time.
func (d *distiller) follow(ctx context.Context, every time.Duration, tell func(distill.Summary, error)) error {
	for ctx.Err() == nil {
		if sum, err := d.safely(ctx); ctx.Err() == nil {
			tell(sum, err)
		}
		_ = pause(ctx, every) // it ends with ctx
	}
	return nil
}

// safely distils once; a panic is an error.
func (d *distiller) safely(ctx context.Context) (sum distill.Summary, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("distill: panic: %v", v)
		}
	}()
	return d.once(ctx)
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stoppable ends a context with the signals that stop a program.
func stoppable(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
}

// openDistiller opens the configured store and lessons for a verb. It works beside a running
// server: what it writes are notes of its own, which nobody else writes.
func (w *world) openDistiller(ctx context.Context, cfg *configs.Config, dryRun bool) (*distiller, func(), error) {
	var st distillStore
	var closer io.Closer
	switch {
	case isRedis(cfg.StoreURL()):
		db, err := w.reachRedis(ctx, cfg)
		if err != nil {
			return nil, nil, err
		}
		st, closer = db, db
	case !exists(cfg.StoreURL()):
		return nil, nil, fmt.Errorf("%w: %s; name the right --data-dir", sqlite.ErrMissing, cfg.StoreURL())
	default:
		db, err := sqlite.Open(ctx, sqlite.Options{Path: cfg.StoreURL(), ReadOnly: dryRun, Now: w.now, BusyTimeout: 10 * time.Second})
		if err != nil {
			return nil, nil, err
		}
		st, closer = db, db
	}
	place, closeBank, err := w.openPlace(cfg)
	if err != nil {
		return nil, nil, errors.Join(err, closer.Close())
	}
	d, err := w.newDistiller(cfg, st, place) //nolint:contextcheck // a check has no context; the look-up is bounded
	if err != nil {
		closeBank()
		return nil, nil, errors.Join(err, closer.Close())
	}
	return d, func() {
		closeBank()
		_ = closer.Close() // what was noted is noted
	}, nil
}

// openPlace opens where the lessons lie.
func (w *world) openPlace(cfg *configs.Config) (bank.Place, func(), error) {
	place, err := w.openBank(cfg, func(string) {})
	switch {
	case err != nil:
		return nil, nil, err
	case place == nil:
		return bank.Directory(cfg.Lessons), func() {}, nil
	}
	return place, func() { _ = place.Close() }, nil
}

// newDistiller puts a distiller together.
func (w *world) newDistiller(cfg *configs.Config, st distillStore, place bank.Place) (*distiller, error) {
	var id [8]byte
	if _, err := io.ReadFull(w.random, id[:]); err != nil {
		return nil, fmt.Errorf("name the distiller: %w", err)
	}
	judge, err := w.newJudge(cfg, id)
	if err != nil {
		return nil, err
	}
	resolve := func(e lesson.Evidence) bool { return resolves(st, e) }
	return &distiller{distill.Options{
		Source: st, Notes: st, Judge: judge, Auto: cfg.Distill.Gate == "auto", Parallel: cfg.Distill.Parallel, Now: w.now, Owner: hex.EncodeToString(id[:]),
		Bank: bank.New(bank.Options{Place: place, Now: w.now, Checks: lesson.Checks{Secrets: secrets, Resolve: resolve}}),
		Budget: distill.Budget{
			Tokens: int64(cfg.Distill.MaxTokens), Cost: cfg.Distill.MaxCost, PerInput: cfg.Distill.PriceInput, PerOut: cfg.Distill.PriceOutput,
		},
	}}, nil
}

// resolves says whether a reference leads to a session of any tenant.
func resolves(st distillStore, e lesson.Evidence) bool {
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
func (w *world) newJudge(cfg *configs.Config, seed [8]byte) (distill.Judge, error) {
	if cfg.Distill.Judge == "rules" {
		return nil, nil //nolint:nilnil // no judge: the rules
	}
	prompts, err := distill.LoadPrompts(cfg.Distill.Prompts)
	if err != nil {
		return nil, err
	}
	return distill.NewModel(distill.ClientOptions{
		URL: cfg.Distill.Judge, Model: cfg.Distill.Model, Key: cfg.Distill.APIKey.Reveal(), HTTP: &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment}},
		Now: w.now, Wait: pause, Random: rand.New(rand.NewPCG(uint64(seed[0]), uint64(seed[1])<<8|uint64(seed[2]))), //nolint:gosec // it spreads retries
	}, prompts), nil
}

// distils adds the distiller to the service's owners.
func (p *parts) distils(cfg *configs.Config, st distillStore) error {
	place, err := p.openBank(cfg, func(line string) { p.log.Debug("redis client", "line", line) })
	if err != nil {
		return err
	}
	var where bank.Place = bank.Directory(cfg.Lessons)
	if place != nil {
		where = place
	}
	d, err := p.newDistiller(cfg, st, where)
	if err != nil {
		return err
	}
	d.o.Settled = true
	d.o.Failed = p.failed
	p.follow = append(p.follow, func(ctx context.Context) error {
		if place != nil {
			defer place.Close() //nolint:errcheck // what was put is put
		}
		if pause(ctx, min(cfg.Distill.Every, 10*time.Second)) != nil { // it was stopped
			return nil
		}
		return d.follow(ctx, cfg.Distill.Every, func(s distill.Summary, err error) {
			if ended := p.endTrials(ctx, d); ended != nil {
				p.failed("trials", ended)
			}
			switch {
			case err != nil:
				p.failed("distill", err)
			case s.Judged+s.Proposed+s.Merged > 0:
				p.log.Info("distilled", "read", s.Read, "judged", s.Judged, "proposed", s.Proposed, "merged", s.Merged, "refused", total(s.Refused), "why", slices.Sorted(maps.Keys(s.Refused)), "tokens", s.Tokens)
			}
		})
	})
	return nil
}
