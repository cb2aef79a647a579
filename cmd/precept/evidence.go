package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"precept/bandit"
	"precept/configs"
	"precept/feedback"
	"precept/sample"
	"precept/session"
	"precept/store/sqlite"
)

// evidence is a store, read beside whoever writes it.
type evidence interface {
	walker
	bench
	Close() error
}

// walker goes through what is kept, oldest first.
type walker interface {
	EachExchange(ctx context.Context, tenant string, since, until time.Time, fn func(sample.Exchange) error) error
	EachSample(ctx context.Context, tenant string, since, until time.Time, fn func(session.StoredSample) error) error
	EachSession(ctx context.Context, tenant string, since, until time.Time, fn func(session.Row, session.Applied) error) error
}

// bench looks single things up.
type bench interface {
	Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error)
	Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error)
	Counters(ctx context.Context, tenant string) ([]bandit.Delta, error)
	Meta(ctx context.Context, key string) (value []byte, ok bool, err error)
	Stats(ctx context.Context) (map[string]int64, error)
}

// openEvidence opens the configured store for reading.
func (w *world) openEvidence(ctx context.Context, cfg *configs.Config) (evidence, error) {
	url := cfg.StoreURL()
	if strings.HasPrefix(url, "redis") {
		return nil, errors.New("the store is in Redis, which this verb does not read; name a file with --store-url")
	}
	db, err := sqlite.Open(ctx, sqlite.Options{Path: url, ReadOnly: true, Now: w.now})
	if err != nil {
		return nil, err
	}
	return db, nil
}

// closeEvidence ends reading; nothing was written that could be lost.
func closeEvidence(e evidence) { _ = e.Close() }

// balance counts what became of every exchange.
func balance(ctx context.Context, e evidence) (diagnosis, error) {
	d := diagnosis{Dropped: map[string]int64{}}
	var err error
	if d.Store, err = e.Stats(ctx); err != nil {
		return d, err
	}
	err = e.EachExchange(ctx, "", time.Time{}, time.Time{}, func(x sample.Exchange) error {
		if x.Outcome != sample.Complete {
			d.Incomplete++
		}
		return nil
	})
	if err != nil {
		return d, err
	}
	d.Stored = d.Store["exchanges_ever"] - d.Incomplete
	if err := readDropped(ctx, e, d.Dropped); err != nil {
		return d, err
	}
	d.Admitted = d.Stored + d.Spooled + d.Incomplete
	for _, n := range d.Dropped {
		d.Admitted += n
	}
	return d, nil
}

// droppedKey is where a server keeps, by reason, what it had to drop.
const droppedKey = "dropped"

func readDropped(ctx context.Context, e evidence, into map[string]int64) error {
	b, ok, err := e.Meta(ctx, droppedKey)
	if err != nil || !ok {
		return err
	}
	if err := json.Unmarshal(b, &into); err != nil {
		return fmt.Errorf("read what was dropped: %w", err)
	}
	return nil
}
