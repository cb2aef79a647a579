package server

import (
	"context"
	"crypto/rand"
	"log/slog"
	"time"

	"precept/configs"
	"precept/store/redis"
)

// lakeGroup is the consumer group whose samples may lose their exchanges.
const lakeGroup = "lake"

// The pause between two looks for old exchanges is a tenth of learning.hot, within these bounds.
const (
	coolLeast = time.Second
	coolMost  = 10 * time.Minute
)

// cooling deletes the exchanges that are older than learning.hot and whose samples are in a lake.
type cooling struct {
	backend Backend
	config  func() *configs.Config
	now     func() time.Time
	log     *slog.Logger
	warned  bool
}

// run looks for old exchanges until the context ends.
func (x *cooling) run(ctx context.Context) error {
	db, shared := x.backend.(*redis.Store)
	var cooler *redis.Cooler
	if shared {
		cooler = db.NewCooler(lakeGroup, rand.Text())
		defer func() { // otherwise no replica would cool for up to 30 minutes after this one has stopped
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_ = cooler.Release(last) // the lease ends by itself
		}()
	}
	for {
		hot, pause := x.config().Learning.Hot, coolMost
		switch {
		case hot <= 0:
			x.warned, pause = false, coolLeast*10
		case !shared:
			x.warn("the store is not in Redis; set learning.hot to 0s, or delete whole sessions with learning.retention")
		default:
			pause = min(max(hot/10, coolLeast), coolMost)
			n, ok, err := cooler.Cool(ctx, x.now().Add(-hot), 3*pause)
			switch {
			case ctx.Err() != nil:
			case err != nil:
				x.log.Warn("old exchanges cannot be deleted from Redis; precept tries again", "error", err)
			case !ok:
				x.warn("no stream of samples has the consumer group lake; start precept export --follow, or set learning.hot to 0s")
			case n > 0:
				x.log.Info("exchanges older than learning.hot left Redis; their samples are in the lake", "exchanges", n)
			}
		}
		if Pause(ctx, pause) != nil {
			return nil //nolint:nilerr // the end of the server
		}
	}
}

// warn logs once why learning.hot has no effect.
func (x *cooling) warn(reason string) {
	if !x.warned {
		x.log.Warn("learning.hot deletes no exchange", "reason", reason)
	}
	x.warned = true
}
