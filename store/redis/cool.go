package redis

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

const (
	// deleteStep is the number of sessions per script call; a call takes a few milliseconds.
	deleteStep = 200
	// maxDeleteKeyspaces is the number of keyspaces (a tenant's keys in a shard) per pipeline.
	maxDeleteKeyspaces = 512
	// maxKeptSince limits ExchangeDeleter.keptSince; an entry takes about 200 bytes.
	maxKeptSince = 1 << 16
)

// ExchangeDeleter deletes the exchanges in old sessions after a consumer group has acknowledged their samples. Only the
// replica that holds the group's lease deletes exchanges. An ExchangeDeleter is not safe for concurrent use.
type ExchangeDeleter struct {
	store *Store
	group string
	owner string

	// Times are scores as formatted by timeScore. All sessions last seen before checkedBefore were checked, except in
	// the keyspaces listed in keptSince, in which a session kept its exchanges.
	checkedBefore string
	keptSince     map[string]string // last use of the oldest session that keeps its exchanges, by key prefix
	recheckAt     time.Time         // next time to check all sessions again
}

const recheckAfter = 24 * time.Hour

// NewExchangeDeleter returns an ExchangeDeleter for a group. owner is the unique name of the lease holder.
func (s *Store) NewExchangeDeleter(group, owner string) *ExchangeDeleter {
	return &ExchangeDeleter{store: s, group: group, owner: owner}
}

// DeleteExchanges deletes the exchanges in closed sessions last seen before the given time, and returns the number of
// exchanges. ok is false if old sessions exist, but the group exists in none of their sample streams. Without the lease
// DeleteExchanges does nothing.
func (deleter *ExchangeDeleter) DeleteExchanges(ctx context.Context, before time.Time, lease time.Duration) (exchanges int, ok bool, err error) {
	s := deleter.store
	if isOwner, err := deleter.acquireLease(ctx, lease); !isOwner || err != nil {
		return 0, true, err
	}
	if now := s.options.Now(); now.After(deleter.recheckAt) {
		deleter.checkedBefore, deleter.keptSince, deleter.recheckAt = "-inf", map[string]string{}, now.Add(recheckAfter)
	}
	keyspaces, err := doValue(ctx, s, "delete old exchanges", func(c client) ([]keyspace, error) { return s.allKeyspaces(ctx, c) })
	if err != nil {
		return 0, true, err
	}
	renewed, streams, groups := s.options.Now(), 0, 0
	keptSince, from := map[string]string{}, timeScore(before)
	for len(keyspaces) > 0 {
		chunk := keyspaces[:min(maxDeleteKeyspaces, len(keyspaces))]
		keyspaces = keyspaces[len(chunk):]
		if now := s.options.Now(); now.Sub(renewed) > lease/3 {
			if isOwner, err := deleter.acquireLease(ctx, lease); !isOwner || err != nil {
				return exchanges, true, err
			}
			renewed = now
		}
		oldKeyspaces, positions, found, err := deleter.findOld(ctx, chunk, before)
		if err != nil {
			return exchanges, true, err
		}
		streams += found
		for _, ks := range oldKeyspaces {
			position, hasGroup := positions[ks.base+"samples"]
			oldest := deleter.uncheckedFrom(ks)
			if hasGroup {
				groups++
			}
			if hasGroup && position != streamStart {
				var n int
				n, oldest, err = deleter.deleteInKeyspace(ctx, ks, position, before)
				if exchanges += n; err != nil {
					return exchanges, true, err
				}
			}
			switch {
			case oldest == "":
			case len(keptSince) < maxKeptSince:
				keptSince[ks.base] = oldest
			default: // keptSince is full, so the next call must check all keyspaces from this time on
				from = earlier(from, oldest)
			}
		}
	}
	deleter.keptSince, deleter.checkedBefore = keptSince, from
	return exchanges, groups > 0 || streams == 0, nil
}

// Release ends the lease, so that another replica need not wait.
func (deleter *ExchangeDeleter) Release(ctx context.Context) error {
	return deleter.store.ReleaseLease(ctx, deleter.leaseName(), deleter.owner)
}

func (deleter *ExchangeDeleter) leaseName() string { return "cool " + deleter.group }

func (deleter *ExchangeDeleter) acquireLease(ctx context.Context, lease time.Duration) (bool, error) {
	return deleter.store.AcquireLease(ctx, deleter.leaseName(), deleter.owner, deleter.store.options.Now(), lease)
}

// uncheckedFrom returns the time from which the sessions in a keyspace must be checked.
func (deleter *ExchangeDeleter) uncheckedFrom(ks keyspace) string {
	return cmp.Or(deleter.keptSince[ks.base], deleter.checkedBefore)
}

func earlier(a, b string) string {
	if a == "-inf" || b == "-inf" {
		return "-inf"
	}
	return strconv.FormatInt(min(parseInt(a), parseInt(b)), 10)
}

// findOld returns the keyspaces with unchecked old sessions, the number of sample streams in them, and the group's
// position in each stream that the group reads.
func (deleter *ExchangeDeleter) findOld(ctx context.Context, keyspaces []keyspace, before time.Time) (oldKeyspaces []keyspace, positions map[string]string, streams int, err error) {
	err = deleter.store.do(ctx, "delete old exchanges", func(c client) error {
		first, err := runPipelined(ctx, c, keyspaces, func(p goredis.Pipeliner, ks keyspace) *goredis.StringSliceCmd {
			return p.ZRangeByScore(ctx, ks.base+"seen", &goredis.ZRangeBy{Min: deleter.uncheckedFrom(ks), Max: "(" + timeScore(before), Count: 1})
		})
		if err != nil {
			return err
		}
		var keys []string
		for i, cmd := range first {
			if len(cmd.Val()) > 0 {
				oldKeyspaces, keys = append(oldKeyspaces, keyspaces[i]), append(keys, keyspaces[i].base+"samples")
			}
		}
		positions, streams, err = readGroupPositions(ctx, c, keys, deleter.group)
		return err
	})
	return oldKeyspaces, positions, streams, err
}

// deleteInKeyspace deletes the exchanges in a keyspace's old sessions. The group has exported the samples up to
// ackPosition. Sessions waiting for the group or for a settlement keep their exchanges; oldestKept is the first of
// these, or "".
func (deleter *ExchangeDeleter) deleteInKeyspace(ctx context.Context, ks keyspace, ackPosition string, before time.Time) (exchanges int, oldestKept string, err error) {
	ms, seq, _ := strings.Cut(ackPosition, "-")
	from, last, sameTimeCount := deleter.uncheckedFrom(ks), "", int64(0) // sameTimeCount counts the sessions with score from, up to last
	for {
		if err := ctx.Err(); err != nil {
			return exchanges, oldestKept, err
		}
		var list []goredis.Z
		counts, err := doValue(ctx, deleter.store, "delete old exchanges", func(c client) (counts []int64, err error) {
			by := &goredis.ZRangeBy{Min: from, Max: "(" + timeScore(before), Offset: max(sameTimeCount-1, 0), Count: deleteStep}
			if list, err = c.ZRangeByScoreWithScores(ctx, ks.base+"seen", by).Result(); err != nil || len(list) == 0 {
				return nil, err
			}
			args := []any{ms, seq, timeScore(before)}
			for _, z := range list {
				args = append(args, z.Member)
			}
			return deleter.store.runScript(ctx, c, "cool", ks, args...).Int64Slice()
		})
		if err != nil {
			return exchanges, oldestKept, fmt.Errorf("delete old exchanges: %w", err)
		}
		if len(list) == 0 && sameTimeCount <= 1 {
			return exchanges, oldestKept, nil
		}
		if sameTimeCount > 0 && (len(list) == 0 || list[0].Member != last) { // the part of the list before last has changed
			sameTimeCount = 0
			continue
		}
		exchanges += int(counts[0])
		if counts[1] > 0 && oldestKept == "" {
			oldestKept = formatScore(list[0].Score)
		}
		if len(list) < deleteStep {
			return exchanges, oldestKept, nil
		}
		from, sameTimeCount = nextPage(list, from, sameTimeCount)
		last, _ = list[len(list)-1].Member.(string)
	}
}

// nextPage returns the time of a page's last session, and the number of sessions at this time so far. from and
// sameTimeCount are the previous page's values.
func nextPage(list []goredis.Z, from string, sameTimeCount int64) (string, int64) {
	end := list[len(list)-1].Score
	if formatScore(end) == from {
		return from, max(sameTimeCount-1, 0) + int64(len(list))
	}
	sameTimeCount = 0
	for i := len(list) - 1; i >= 0 && list[i].Score == end; i-- {
		sameTimeCount++
	}
	return formatScore(end), sameTimeCount
}

func formatScore(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
