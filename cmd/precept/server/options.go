package server

import (
	"slices"
	"time"

	"precept/bandit/feedback"
	"precept/configs"
	"precept/internal/sample"
	"precept/learn"
	"precept/store"
)

// StoreOptions are those of every verb that writes the store, but for whom to tell of failures.
func (w *Tools) StoreOptions(cfg *configs.Config, backend Backend) (store.Options, error) {
	optOut, err := sample.NewOptOut(
		cfg.Learning.OptOutPatterns, cfg.Learning.OptOutAgents, cfg.Learning.OptOutTenants,
	)
	return store.Options{
		Now: w.Now, Backend: backend, Fleet: shared[store.Fleet](backend),
		Lookup: cfg.Limits.LookupTimeout, Sessions: cfg.Limits.Sessions,
		HoldBytes: int64(cfg.Limits.CaptureTotalBytes), SpoolDir: spoolOf(cfg, backend),
		SpoolBytes:   int64(cfg.Limits.SpoolBytes),
		DeliverEvery: deliverEvery(cfg), Learn: cfg.Learning.Enabled,
		Personal: cfg.Learning.AnonymizePII,
		OptOut:   optOut, Retention: cfg.Learning.Retention, Sentiment: cfg.Reward.Sentiment,
	}, err
}

// LearnOptions are those of every verb that learns or reports, but for what is known beside the
// backend.
func (w *Tools) LearnOptions(cfg *configs.Config, backend Backend) learn.Options {
	return learn.Options{
		Now: w.Now, Backend: backend, Fleet: shared[learn.Fleet](backend), Reward: rewardDefinition(cfg),
		Samples: cfg.Learning.Enabled,
	}
}

// rewardDefinition is what a reward is.
func rewardDefinition(cfg *configs.Config) feedback.Definition {
	return feedback.Definition{
		Tiers: Tiers(cfg.Reward.Tiers), Sentiment: cfg.Reward.Sentiment,
		CloseAfter: cfg.Reward.CloseAfter,
	}
}

// spoolOf is where what waits for the store is written down: nowhere, when nothing can be written
// or kept.
func spoolOf(cfg *configs.Config, backend Backend) string {
	if _, volatile := backend.(store.Volatile); volatile || !cfg.Learning.Enabled {
		return ""
	}
	return SpoolDir(cfg)
}

// deliverEvery is how long new turns may wait in the spool. A database of our own likes them in
// larger pieces; replicas that share a Redis want to see at once what another one did.
func deliverEvery(cfg *configs.Config) time.Duration {
	if IsRedis(cfg.StoreURL()) {
		return 0
	}
	return min(time.Second, max(cfg.Reward.CloseAfter/10, 100*time.Millisecond))
}

// Tiers turns the configuration's words into feedback's numbers.
func Tiers(words []string) (out []int) {
	for _, w := range words {
		out = append(out, 1+slices.Index([]string{"user", "verifier", "implicit"}, w))
	}
	return out
}
