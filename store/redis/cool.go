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
	// deleteStep is the number of sessions that one script call checks. Such a call keeps the server busy for some
	// milliseconds.
	deleteStep = 200
	// maxDeleteKeyspaces is the number of keyspaces in which one pipeline searches for old sessions.
	maxDeleteKeyspaces = 512
	// maxKeptKeyspaces is the maximum number of entries in Cooler.keptSince, each of which needs about 200 bytes.
	maxKeptKeyspaces = 1 << 16
)

// ExchangeDeleter deletes the exchanges of old sessions whose samples a consumer group has acknowledged. Each replica
// may have a Cooler for a group, and only the one that holds the group's lease works. A Cooler is not safe for
// concurrent use.
type ExchangeDeleter struct {
	store *Store
	group string
	owner string // owner of the lease

	// Times of sessions are scores, as the function score returns them. The Cooler has checked all sessions that were
	// last seen before checkedBefore, except in the keyspaces of waiting.
	checkedBefore string
	keptSince     map[string]string // time of the oldest session whose exchanges could not be deleted yet, by the key prefix of the keyspace
	recheckAt     time.Time         // time after which the Cooler checks all sessions again
}

// recheckAfter is the time after which a Cooler checks all sessions again, including those that it has checked.
const recheckAfter = 24 * time.Hour

// NewExchangeDeleter returns a Cooler for a group. owner is the name of the Cooler in the lease, and must be unique.
func (s *Store) NewExchangeDeleter(group, owner string) *ExchangeDeleter {
	return &ExchangeDeleter{store: s, group: group, owner: owner}
}

// DeleteExchanges deletes the exchanges of closed sessions that were last seen before a time, and returns the number of
// deleted exchanges. Sessions, samples and counters stay. ok is false if old sessions exist and no stream of their
// samples has the group. Cool acquires the lease for the given duration, and does nothing while another Cooler holds
// the lease.
func (deleter *ExchangeDeleter) DeleteExchanges(ctx context.Context, before time.Time, lease time.Duration) (exchanges int, ok bool, err error) {
	s := deleter.store
	if isOwner, err := deleter.acquireLease(ctx, lease); !isOwner || err != nil {
		return 0, true, err
	}
	if now := s.options.Now(); now.After(deleter.recheckAt) {
		deleter.checkedBefore, deleter.keptSince, deleter.recheckAt = "-inf", map[string]string{}, now.Add(recheckAfter)
	}
	keyspaces, err := doValue(ctx, s, "cool", func(c client) ([]keyspace, error) { return s.allKeyspaces(ctx, c) })
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
			case len(keptSince) < maxKeptKeyspaces:
				keptSince[ks.base] = oldest
			default: // waiting is full, so the next call must check all keyspaces from this time on
				from = earlier(from, oldest)
			}
		}
	}
	deleter.keptSince, deleter.checkedBefore = keptSince, from
	return exchanges, groups > 0 || streams == 0, nil
}

// Release ends the lease, so that another Cooler of the group can work at once.
func (deleter *ExchangeDeleter) Release(ctx context.Context) error {
	return deleter.store.ReleaseLease(ctx, deleter.leaseName(), deleter.owner)
}

func (deleter *ExchangeDeleter) leaseName() string { return "cool " + deleter.group }

// acquireLease acquires or renews the lease.
func (deleter *ExchangeDeleter) acquireLease(ctx context.Context, lease time.Duration) (bool, error) {
	return deleter.store.AcquireLease(ctx, deleter.leaseName(), deleter.owner, deleter.store.options.Now(), lease)
}

// uncheckedFrom returns the time from which the sessions of a keyspace must be checked.
func (deleter *ExchangeDeleter) uncheckedFrom(ks keyspace) string {
	return cmp.Or(deleter.keptSince[ks.base], deleter.checkedBefore)
}

// earlier returns the earlier of two scores.
func earlier(a, b string) string {
	if a == "-inf" || b == "-inf" {
		return "-inf"
	}
	return strconv.FormatInt(min(parseInt(a), parseInt(b)), 10)
}

// findOld returns the keyspaces with old sessions that the Cooler has not checked. positions holds the group's
// position in each of their streams that has the group, and streams is the number of their streams.
func (deleter *ExchangeDeleter) findOld(ctx context.Context, keyspaces []keyspace, before time.Time) (oldKeyspaces []keyspace, positions map[string]string, streams int, err error) {
	err = deleter.store.do(ctx, "cool", func(c client) error {
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

// deleteInKeyspace deletes the exchanges of the old sessions of a keyspace. position is the group's position in the
// stream of samples: the group acknowledges a stream in order, so that all entries up to position have been exported.
// The exchanges of a session stay while the session waits for the group or for a settlement. firstWaiting is a time
// before which no session waits; "" means no session waits.
func (deleter *ExchangeDeleter) deleteInKeyspace(ctx context.Context, ks keyspace, ackPosition string, before time.Time) (exchanges int, oldestKept string, err error) {
	ms, seq, _ := strings.Cut(ackPosition, "-")
	from, last, sameTimeCount := deleter.uncheckedFrom(ks), "", int64(0) // sameTimeCount counts the sessions that were last seen at the time from, up to the session last
	for {
		if err := ctx.Err(); err != nil {
			return exchanges, oldestKept, err
		}
		var list []goredis.Z
		counts, err := doValue(ctx, deleter.store, "cool", func(c client) (counts []int64, err error) {
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
			return exchanges, oldestKept, fmt.Errorf("cool sessions: %w", err)
		}
		if len(list) == 0 && sameTimeCount <= 1 {
			return exchanges, oldestKept, nil
		}
		if sameTimeCount > 0 && (len(list) == 0 || list[0].Member != last) { // the list has changed before the session last, so the sessions of this time are read again
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

// nextPage returns the time of the last session of a page, and the number of sessions of this time up to that session.
// from and sameTimeCount are the results for the previous page.
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
