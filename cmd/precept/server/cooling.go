package server

import (
	"context"
	"crypto/rand"
	"log/slog"
	"time"

	"precept/configs"
	"precept/store/redis"
)

// lakeGroup is the consumer group of the lake, which is the set of files that precept export --follow writes. An old
// exchange is deleted only after this group has read its samples.
const lakeGroup = "lake"

// The pause between two deletions is a tenth of learning.hot, but at least minCoolPause and at most maxCoolPause.
const (
	minCoolPause = time.Second
	maxCoolPause = 10 * time.Minute
	coolPoll     = time.Second // interval between two reads of learning.hot
	releaseLimit = time.Second // maximum time to release the lease
)

// cooling is the worker that deletes exchanges that are older than learning.hot and whose samples are in the lake.
type cooling struct {
	backend Backend
	config  func() *configs.Config
	now     func() time.Time
	log     *slog.Logger
	warned  bool          // warn has logged a line
	cooler  *redis.Cooler // holds the lease that permits one replica of the fleet to delete; nil if not in use
}

// run deletes old exchanges at intervals until ctx ends. A changed learning.hot takes effect within coolPoll.
func (x *cooling) run(ctx context.Context) error {
	defer x.release(context.WithoutCancel(ctx))
	var next time.Time // time of the next deletion
	for last := time.Duration(0); ; {
		hot := x.config().Learning.Hot
		if hot != last {
			last, next = hot, time.Time{}
		}
		if hot <= 0 {
			x.warned = false
			x.release(ctx)
		} else if now := x.now(); !now.Before(next) {
			pause := min(max(hot/10, minCoolPause), maxCoolPause)
			next = now.Add(pause)
			x.deleteOld(ctx, now.Add(-hot), 3*pause)
		}
		if Pause(ctx, coolPoll) != nil {
			return nil //nolint:nilerr // the end of the server
		}
	}
}

// deleteOld deletes the exchanges that are older than before, if this replica gets the lease. lease is its duration.
func (x *cooling) deleteOld(ctx context.Context, before time.Time, lease time.Duration) {
	db, shared := x.backend.(*redis.Store)
	if !shared {
		x.warn("the store is not in Redis; set learning.hot to 0s, or delete whole sessions with learning.retention")
		return
	}
	if x.cooler == nil {
		x.cooler = db.NewCooler(lakeGroup, rand.Text())
	}
	n, ok, err := x.cooler.Cool(ctx, before, lease)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		x.log.Warn("old exchanges cannot be deleted from Redis; precept tries again", "error", err)
	case !ok:
		x.warn("no stream of samples has the consumer group lake; start precept export --follow, or set learning.hot to 0s")
	case n > 0:
		x.log.Info("exchanges older than learning.hot were deleted from Redis; their samples are in the lake", "exchanges", n)
	}
}

// release ends the lease. Without release, no replica would delete exchanges for up to 30 minutes after this replica
// stopped or learning.hot became 0s.
func (x *cooling) release(ctx context.Context) {
	if x.cooler == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, releaseLimit)
	defer cancel()
	_ = x.cooler.Release(ctx) // otherwise the lease expires
	x.cooler = nil
}

// warn logs, once, the reason why learning.hot has no effect.
func (x *cooling) warn(reason string) {
	if !x.warned {
		x.log.Warn("learning.hot deletes no exchange", "reason", reason)
	}
	x.warned = true
}
