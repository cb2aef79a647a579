package redis

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// Epoch names the life that the data is in. It changes when some of it may have been lost: a server
// was restarted or replaced by its replica, or the data was flushed. Who keeps his own copy of what
// he wrote lately writes it again then.
func (s *Store) Epoch(ctx context.Context) (string, error) {
	epoch, err := ask(ctx, s, "epoch", func(c client) (string, error) {
		now, err := c.Time(ctx).Result()
		if err != nil {
			return "", err
		}
		// The first to look at an empty Redis marks it, by the server's own clock.
		key := s.shared("epoch")
		if err := c.SetNX(ctx, key, strconv.FormatInt(now.UnixNano(), 36), 0).Err(); err != nil {
			return "", err
		}
		mark, err := c.Get(ctx, key).Result()
		if err != nil {
			return "", err
		}
		runs, err := s.infos(ctx, c, "server", "run_id")
		return joinEpoch(mark, runs), err
	})
	if err == nil {
		if old := s.epoch.Swap(&epoch); old != nil && *old != epoch {
			s.known.clear() // the list of tenants may be lost, too
		}
	}
	return epoch, err
}

// joinEpoch folds the mark in the data and the servers' run ids, in any order, into one word.
func joinEpoch(mark string, runs []string) string {
	slices.Sort(runs)
	sum := sha256.Sum256([]byte(mark + " " + strings.Join(runs, " ")))
	return hex.EncodeToString(sum[:12])
}
