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
	// coolStep is the number of sessions that one step checks, in some milliseconds of the server's
	// time.
	coolStep = 200
	// maxCoolKeyspaces is the number of keyspaces in which one pipeline searches old sessions.
	maxCoolKeyspaces = 512
	// coolWaiting is the maximum number of keyspaces whose position a Cooler remembers, some 200 bytes each.
	coolWaiting = 1 << 16
)

// Cooler deletes the exchanges of old sessions whose samples a consumer group has acknowledged. Of all
// Coolers of a group in the fleet, only the holder of a lease works. A Cooler is for one goroutine.
type Cooler struct {
	store *Store
	group string
	owner string // owner of the lease

	// The Cooler has checked all sessions that were last seen before from, except in the keyspaces of waiting.
	from    string
	waiting map[string]string // by the prefix of the keys: the time of the oldest session that waits for the group
	ends    time.Time         // time after which the Cooler checks all sessions again
}

// recheckAfter is the time after which a Cooler checks all sessions again, also the sessions whose exchanges stayed.
const recheckAfter = 24 * time.Hour

// NewCooler returns a Cooler for a group. No other Cooler has the same owner.
func (s *Store) NewCooler(group, owner string) *Cooler {
	return &Cooler{store: s, group: group, owner: owner}
}

// Cool deletes the exchanges of closed sessions that were last seen before a time, and returns their
// number. ok is false if old sessions exist and no stream of their samples has the group. Sessions,
// samples and counters stay. The Cooler holds the lease for the duration lease. Cool does nothing while
// another Cooler holds the lease.
func (k *Cooler) Cool(ctx context.Context, before time.Time, lease time.Duration) (exchanges int, ok bool, err error) {
	s := k.store
	if isOwner, err := k.claim(ctx, lease); !isOwner || err != nil {
		return 0, true, err
	}
	if now := s.opt.Now(); now.After(k.ends) {
		k.from, k.waiting, k.ends = "-inf", map[string]string{}, now.Add(recheckAfter)
	}
	keyspaces, err := ask(ctx, s, "cool", func(c client) ([]keyspace, error) { return s.allKeyspaces(ctx, c) })
	if err != nil {
		return 0, true, err
	}
	renewed, streams, groups := s.opt.Now(), 0, 0
	waiting, from := map[string]string{}, score(before)
	for len(keyspaces) > 0 {
		chunk := keyspaces[:min(maxCoolKeyspaces, len(keyspaces))]
		keyspaces = keyspaces[len(chunk):]
		if now := s.opt.Now(); now.Sub(renewed) > lease/3 {
			if isOwner, err := k.claim(ctx, lease); !isOwner || err != nil {
				return exchanges, true, err
			}
			renewed = now
		}
		old, places, found, err := k.findOld(ctx, chunk, before)
		if err != nil {
			return exchanges, true, err
		}
		streams += found
		for _, ks := range old {
			place, hasGroup := places[ks.base+"samples"]
			oldest := k.position(ks)
			if hasGroup {
				groups++
			}
			if hasGroup && place != streamStart {
				var n int
				n, oldest, err = k.coolKeyspace(ctx, ks, place, before)
				if exchanges += n; err != nil {
					return exchanges, true, err
				}
			}
			switch {
			case oldest == "":
			case len(waiting) < coolWaiting:
				waiting[ks.base] = oldest
			default: // the next call checks all keyspaces from the oldest of these times on
				from = earlier(from, oldest)
			}
		}
	}
	k.waiting, k.from = waiting, from
	return exchanges, groups > 0 || streams == 0, nil
}

// Release ends the lease, so that another Cooler of the group works at once.
func (k *Cooler) Release(ctx context.Context) error {
	return k.store.ReleaseClaim(ctx, k.leaseName(), k.owner)
}

func (k *Cooler) leaseName() string { return "cool " + k.group }

// claim acquires or renews the lease.
func (k *Cooler) claim(ctx context.Context, lease time.Duration) (bool, error) {
	return k.store.Claim(ctx, k.leaseName(), k.owner, k.store.opt.Now(), lease)
}

// position returns the time of the first sessions of a keyspace that the Cooler has not checked.
func (k *Cooler) position(ks keyspace) string { return cmp.Or(k.waiting[ks.base], k.from) }

// earlier returns the earlier of two scores.
func earlier(a, b string) string {
	if a == "-inf" || b == "-inf" {
		return "-inf"
	}
	return strconv.FormatInt(min(integer(a), integer(b)), 10)
}

// findOld returns the keyspaces with sessions that the Cooler has not checked, the places of the group in
// the streams of these keyspaces, and the number of their streams.
func (k *Cooler) findOld(ctx context.Context, keyspaces []keyspace, before time.Time) (old []keyspace, places map[string]string, streams int, err error) {
	err = k.store.do(ctx, "cool", func(c client) error {
		first, err := piped(ctx, c, keyspaces, func(p goredis.Pipeliner, ks keyspace) *goredis.StringSliceCmd {
			return p.ZRangeByScore(ctx, ks.base+"seen", &goredis.ZRangeBy{Min: k.position(ks), Max: "(" + score(before), Count: 1})
		})
		if err != nil {
			return err
		}
		var keys []string
		for i, cmd := range first {
			if len(cmd.Val()) > 0 {
				old, keys = append(old, keyspaces[i]), append(keys, keyspaces[i].base+"samples")
			}
		}
		places, streams, err = groupPlacesOf(ctx, c, keys, k.group)
		return err
	})
	return old, places, streams, err
}

// coolKeyspace deletes the exchanges of the old sessions of a keyspace. The group acknowledges a stream in order, so
// all entries up to its place have been exported. Some sessions wait for the group or for a settlement; no session
// before the time waits does. waits is "" if no session waits.
func (k *Cooler) coolKeyspace(ctx context.Context, ks keyspace, place string, before time.Time) (exchanges int, waits string, err error) {
	ms, seq, _ := strings.Cut(place, "-")
	from, last, same := k.position(ks), "", int64(0) // same: number of sessions that were seen at the time from, up to the session last
	for {
		if err := ctx.Err(); err != nil {
			return exchanges, waits, err
		}
		var list []goredis.Z
		counts, err := ask(ctx, k.store, "cool", func(c client) (counts []int64, err error) {
			by := &goredis.ZRangeBy{Min: from, Max: "(" + score(before), Offset: max(same-1, 0), Count: coolStep}
			if list, err = c.ZRangeByScoreWithScores(ctx, ks.base+"seen", by).Result(); err != nil || len(list) == 0 {
				return nil, err
			}
			args := []any{ms, seq, score(before)}
			for _, z := range list {
				args = append(args, z.Member)
			}
			return k.store.runScript(ctx, c, "cool", ks, args...).Int64Slice()
		})
		if err != nil {
			return exchanges, waits, fmt.Errorf("cool sessions: %w", err)
		}
		if len(list) == 0 && same <= 1 {
			return exchanges, waits, nil
		}
		if same > 0 && (len(list) == 0 || list[0].Member != last) { // a session before last has left the list: read this time again
			same = 0
			continue
		}
		exchanges += int(counts[0])
		if counts[1] > 0 && waits == "" {
			waits = formatScore(list[0].Score)
		}
		if len(list) < coolStep {
			return exchanges, waits, nil
		}
		from, same = nextPage(list, from, same)
		last, _ = list[len(list)-1].Member.(string)
	}
}

// nextPage returns the time of the last session of a page, and the number of sessions of this time up to
// the last session. The page begins at the time from, with the last of same sessions.
func nextPage(list []goredis.Z, from string, same int64) (string, int64) {
	end := list[len(list)-1].Score
	if formatScore(end) == from {
		return from, max(same-1, 0) + int64(len(list))
	}
	same = 0
	for i := len(list) - 1; i >= 0 && list[i].Score == end; i-- {
		same++
	}
	return formatScore(end), same
}

func formatScore(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
