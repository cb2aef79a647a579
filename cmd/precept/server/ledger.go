package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"time"

	"precept/configs"
	"precept/inject/bank"
	"precept/inject/ledger"
	"precept/inject/lesson"
	"precept/internal/file"
	"precept/internal/label"
)

const (
	ledgerInterval      = time.Second
	ledgerRetryInterval = 10 * time.Minute // pause before refused entries are proposed again
	ledgerBatch         = 100
)

// ledgerWorker proposes the entries in the ledger file (an AGENT.md with a project's failures) as lessons, at the start
// and after each change. The bank, the lesson storage, checks the proposals.
func ledgerWorker(cfg *configs.Config, lessons *library) func(context.Context) error {
	return func(ctx context.Context) error {
		ticker := time.NewTicker(ledgerInterval)
		defer ticker.Stop()
		var last [sha256.Size]byte
		var retryAt time.Time
		for first := true; ; first = false {
			text, err := file.Read(cfg.Ledger.File)
			sum := sha256.Sum256(text)
			switch {
			case err != nil && !errors.Is(err, os.ErrNotExist):
				lessons.failures.report(label.StepLedger, err)
			case first || sum != last || !retryAt.IsZero() && lessons.now().After(retryAt):
				last, retryAt = sum, time.Time{}
				hasRemaining, err := proposeEntries(ctx, cfg, lessons, text)
				if err != nil && ctx.Err() == nil {
					lessons.failures.report(label.StepLedger, err)
				}
				if err != nil || hasRemaining {
					retryAt = lessons.now().Add(ledgerRetryInterval)
				}
			}
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
		}
	}
}

// proposeEntries proposes new entries. hasRemaining is true if the bank failed or accepts no more proposals for now.
func proposeEntries(ctx context.Context, cfg *configs.Config, lessons *library, text []byte) (hasRemaining bool, err error) {
	all := ledger.Lessons(text)
	if len(all) == 0 {
		return false, nil
	}
	book, _, err := lessons.bank.List(ctx)
	if err != nil {
		return false, err
	}
	var proposals []bank.Proposal
	for _, l := range all {
		if _, known := book.Get(l.Slug); known || book.Archived(l.Slug) {
			continue
		}
		proposals = append(proposals, bank.Proposal{
			Lesson: l, Source: "ledger", By: cfg.Ledger.File, ActivateNow: cfg.Ledger.Trust == "own",
			Scope: lesson.Scope{Tenant: cfg.Ledger.Tenant, Agent: cfg.Ledger.Agent},
		})
	}
	proposed := 0
	defer func() {
		if proposed > 0 {
			lessons.log.Info("lessons were created from ledger entries", "count", proposed)
		}
	}()
	for len(proposals) > 0 && ctx.Err() == nil {
		results, err := lessons.bank.ProposeAll(ctx, proposals[:min(len(proposals), ledgerBatch)])
		if err != nil {
			return true, err
		}
		for i, r := range results {
			switch {
			case r.Err == nil:
				proposed++
			case errors.Is(r.Err, bank.ErrTooMany):
				return true, nil
			default:
				lessons.log.Warn("a ledger entry was refused as a lesson", "slug", proposals[i].Lesson.Slug, "fault", r.Err)
			}
		}
		proposals = proposals[len(results):]
	}
	return false, nil
}
