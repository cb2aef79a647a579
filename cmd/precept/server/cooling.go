package server

import (
	"context"
	"crypto/rand"
	"log/slog"
	"time"

	"precept/configs"
	"precept/store/redis"
)

// lakeGroup is the consumer group for precept export --follow. An old exchange is deleted only after this group has
// read the samples that were made from it.
const lakeGroup = "lake"

// The pause between two deletions is a tenth of learning.hot, but at least minDeletePause and at most maxDeletePause.
const (
	minDeletePause  = time.Second
	maxDeletePause  = 10 * time.Minute
	hotPollInterval = time.Second
	releaseTimeout  = time.Second // maximum time to release the lease
)

// exchangeDeleter deletes exchanges older than learning.hot, once precept export --follow has exported the samples.
type exchangeDeleter struct {
	backend      Backend
	config       func() *configs.Config
	now          func() time.Time
	log          *slog.Logger
	warned       bool
	redisDeleter *redis.ExchangeDeleter // deletes under the fleet's lease; nil if not in use
}

// run deletes old exchanges until ctx ends.
func (d *exchangeDeleter) run(ctx context.Context) error {
	defer d.release(context.WithoutCancel(ctx))
	var next time.Time
	for last := time.Duration(0); ; {
		hot := d.config().Learning.Hot
		if hot != last {
			last, next = hot, time.Time{}
		}
		if hot <= 0 {
			d.warned = false
			d.release(ctx)
		} else if now := d.now(); !now.Before(next) {
			pause := min(max(hot/10, minDeletePause), maxDeletePause)
			next = now.Add(pause)
			d.deleteOld(ctx, now.Add(-hot), 3*pause)
		}
		if Sleep(ctx, hotPollInterval) != nil {
			return nil //nolint:nilerr // the server stops
		}
	}
}

// deleteOld deletes old exchanges if this replica has the fleet's lease.
func (d *exchangeDeleter) deleteOld(ctx context.Context, before time.Time, lease time.Duration) {
	db, shared := d.backend.(*redis.Store)
	if !shared {
		d.warn("the store is not in Redis; set learning.hot to 0s, or delete whole sessions with learning.retention")
		return
	}
	if d.redisDeleter == nil {
		d.redisDeleter = db.NewExchangeDeleter(lakeGroup, rand.Text())
	}
	n, ok, err := d.redisDeleter.DeleteExchanges(ctx, before, lease)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		d.log.Warn("old exchanges cannot be deleted from Redis; precept will try again", "error", err)
	case !ok:
		d.warn("the samples are not exported (the consumer group lake does not exist); start `precept export --follow`, or set learning.hot to 0s")
	case n > 0:
		d.log.Info("exchanges older than learning.hot were deleted from Redis; their samples have been exported", "exchanges", n)
	}
}

// release ends the lease, so that another replica can delete exchanges without waiting for up to 30 minutes.
func (d *exchangeDeleter) release(ctx context.Context) {
	if d.redisDeleter == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	_ = d.redisDeleter.Release(ctx) // after an error, the lease expires
	d.redisDeleter = nil
}

// warn logs a warning only once.
func (d *exchangeDeleter) warn(reason string) {
	if !d.warned {
		d.log.Warn("learning.hot has no effect", "reason", reason)
	}
	d.warned = true
}
