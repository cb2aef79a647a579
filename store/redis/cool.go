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
	// coolStep is the number of sessions that one script call checks. Such a call keeps the server busy for some
	// milliseconds.
	coolStep = 200
	// maxCoolKeyspaces is the number of keyspaces in which one pipeline searches for old sessions.
	maxCoolKeyspaces = 512
	// maxWaiting is the maximum number of entries in Cooler.waiting, each of which needs about 200 bytes.
	maxWaiting = 1 << 16
)

// Cooler deletes the exchanges of old sessions whose samples a consumer group has acknowledged. Each replica may have a
// Cooler for a group, and only the one that holds the group's lease works. A Cooler is not safe for concurrent use.
type Cooler struct {
	store *Store
	group string
	owner string // owner of the lease

	// Times of sessions are scores, as the function score returns them. The Cooler has checked all sessions that were
	// last seen before checkedBefore, except in the keyspaces of waiting.
	checkedBefore string
	waiting       map[string]string // time of the oldest session whose exchanges could not be deleted yet, by the key prefix of the keyspace
	recheckAt     time.Time         // time after which the Cooler checks all sessions again
}

// recheckAfter is the time after which a Cooler checks all sessions again, including those that it has checked.
const recheckAfter = 24 * time.Hour

// NewCooler returns a Cooler for a group. owner is the name of the Cooler in the lease, and must be unique.
func (s *Store) NewCooler(group, owner string) *Cooler {
	return &Cooler{store: s, group: group, owner: owner}
}

// Cool deletes the exchanges of closed sessions that were last seen before a time, and returns the number of deleted
// exchanges. Sessions, samples and counters stay. ok is false if old sessions exist and no stream of their samples has
// the group. Cool acquires the lease for the given duration, and does nothing while another Cooler holds the lease.
func (cooler *Cooler) Cool(ctx context.Context, before time.Time, lease time.Duration) (exchanges int, ok bool, err error) {
	s := cooler.store
	if isOwner, err := cooler.claim(ctx, lease); !isOwner || err != nil {
		return 0, true, err
	}
	if now := s.options.Now(); now.After(cooler.recheckAt) {
		cooler.checkedBefore, cooler.waiting, cooler.recheckAt = "-inf", map[string]string{}, now.Add(recheckAfter)
	}
	keyspaces, err := doValue(ctx, s, "cool", func(c client) ([]keyspace, error) { return s.allKeyspaces(ctx, c) })
	if err != nil {
		return 0, true, err
	}
	renewed, streams, groups := s.options.Now(), 0, 0
	waiting, from := map[string]string{}, score(before)
	for len(keyspaces) > 0 {
		chunk := keyspaces[:min(maxCoolKeyspaces, len(keyspaces))]
		keyspaces = keyspaces[len(chunk):]
		if now := s.options.Now(); now.Sub(renewed) > lease/3 {
			if isOwner, err := cooler.claim(ctx, lease); !isOwner || err != nil {
				return exchanges, true, err
			}
			renewed = now
		}
		old, positions, found, err := cooler.findOld(ctx, chunk, before)
		if err != nil {
			return exchanges, true, err
		}
		streams += found
		for _, ks := range old {
			position, hasGroup := positions[ks.base+"samples"]
			oldest := cooler.position(ks)
			if hasGroup {
				groups++
			}
			if hasGroup && position != streamStart {
				var n int
				n, oldest, err = cooler.coolKeyspace(ctx, ks, position, before)
				if exchanges += n; err != nil {
					return exchanges, true, err
				}
			}
			switch {
			case oldest == "":
			case len(waiting) < maxWaiting:
				waiting[ks.base] = oldest
			default: // waiting is full, so the next call must check all keyspaces from this time on
				from = earlier(from, oldest)
			}
		}
	}
	cooler.waiting, cooler.checkedBefore = waiting, from
	return exchanges, groups > 0 || streams == 0, nil
}

// Release ends the lease, so that another Cooler of the group can work at once.
func (cooler *Cooler) Release(ctx context.Context) error {
	return cooler.store.ReleaseClaim(ctx, cooler.leaseName(), cooler.owner)
}

func (cooler *Cooler) leaseName() string { return "cool " + cooler.group }

// claim acquires or renews the lease.
func (cooler *Cooler) claim(ctx context.Context, lease time.Duration) (bool, error) {
	return cooler.store.Claim(ctx, cooler.leaseName(), cooler.owner, cooler.store.options.Now(), lease)
}

// position returns the time from which the sessions of a keyspace must be checked.
func (cooler *Cooler) position(ks keyspace) string {
	return cmp.Or(cooler.waiting[ks.base], cooler.checkedBefore)
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
func (cooler *Cooler) findOld(ctx context.Context, keyspaces []keyspace, before time.Time) (oldKeyspaces []keyspace, positions map[string]string, streams int, err error) {
	err = cooler.store.do(ctx, "cool", func(c client) error {
		first, err := piped(ctx, c, keyspaces, func(p goredis.Pipeliner, ks keyspace) *goredis.StringSliceCmd {
			return p.ZRangeByScore(ctx, ks.base+"seen", &goredis.ZRangeBy{Min: cooler.position(ks), Max: "(" + score(before), Count: 1})
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
		positions, streams, err = readGroupPositions(ctx, c, keys, cooler.group)
		return err
	})
	return oldKeyspaces, positions, streams, err
}

// coolKeyspace deletes the exchanges of the old sessions of a keyspace. position is the group's position in the
// stream of samples: the group acknowledges a stream in order, so that all entries up to position have been exported.
// The exchanges of a session stay while the session waits for the group or for a settlement. firstWaiting is a time
// before which no session waits; "" means no session waits.
func (cooler *Cooler) coolKeyspace(ctx context.Context, ks keyspace, position string, before time.Time) (exchanges int, firstWaiting string, err error) {
	ms, seq, _ := strings.Cut(position, "-")
	from, last, sameTimeCount := cooler.position(ks), "", int64(0) // sameTimeCount counts the sessions that were last seen at the time from, up to the session last
	for {
		if err := ctx.Err(); err != nil {
			return exchanges, firstWaiting, err
		}
		var list []goredis.Z
		counts, err := doValue(ctx, cooler.store, "cool", func(c client) (counts []int64, err error) {
			by := &goredis.ZRangeBy{Min: from, Max: "(" + score(before), Offset: max(sameTimeCount-1, 0), Count: coolStep}
			if list, err = c.ZRangeByScoreWithScores(ctx, ks.base+"seen", by).Result(); err != nil || len(list) == 0 {
				return nil, err
			}
			args := []any{ms, seq, score(before)}
			for _, z := range list {
				args = append(args, z.Member)
			}
			return cooler.store.runScript(ctx, c, "cool", ks, args...).Int64Slice()
		})
		if err != nil {
			return exchanges, firstWaiting, fmt.Errorf("cool sessions: %w", err)
		}
		if len(list) == 0 && sameTimeCount <= 1 {
			return exchanges, firstWaiting, nil
		}
		if sameTimeCount > 0 && (len(list) == 0 || list[0].Member != last) { // the list has changed before the session last, so the sessions of this time are read again
			sameTimeCount = 0
			continue
		}
		exchanges += int(counts[0])
		if counts[1] > 0 && firstWaiting == "" {
			firstWaiting = formatScore(list[0].Score)
		}
		if len(list) < coolStep {
			return exchanges, firstWaiting, nil
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
