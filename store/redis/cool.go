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

// coolStep is the number of sessions that one step looks at, in some milliseconds of the server's
// time.
const coolStep = 200

// Cooler deletes the exchanges of old sessions whose samples a consumer group has acknowledged. A
// Cooler remembers which sessions it has seen, and is for one goroutine.
type Cooler struct {
	store *Store
	group string
	done  map[string]string // time behind which the next look starts, by the prefix of the keys
	ends  time.Time         // time at which the Cooler looks at all sessions again
}

// recool is the time after which a Cooler looks again at sessions that could not be cooled.
const recool = 24 * time.Hour

// NewCooler returns a Cooler for a group.
func (s *Store) NewCooler(group string) *Cooler { return &Cooler{store: s, group: group} }

// Cool deletes the exchanges of closed sessions that were last seen before a time, and returns their
// number. ok is false if no stream of samples has the group. Sessions, samples and counters stay.
func (k *Cooler) Cool(ctx context.Context, before time.Time) (exchanges int, ok bool, err error) {
	s := k.store
	if now := s.opt.Now(); now.After(k.ends) {
		k.done, k.ends = map[string]string{}, now.Add(recool)
	}
	places, err := s.groupPlaces(ctx, k.group)
	if err != nil || len(places) == 0 {
		return 0, false, err
	}
	parts, err := ask(ctx, s, "cool", func(c client) ([]part, error) { return s.allParts(ctx, c) })
	for _, in := range parts {
		stream := in.base + "samples"
		place, found := places[stream]
		if !found || place == streamStart {
			continue
		}
		n, err := k.coolPart(ctx, in, place, before)
		if exchanges += n; err != nil {
			return exchanges, true, err
		}
	}
	return exchanges, true, err
}

// coolPart cools the sessions of a part. The group acknowledges a stream in order, so all entries up
// to its place are in the lake.
func (k *Cooler) coolPart(ctx context.Context, in part, place string, before time.Time) (exchanges int, err error) {
	ms, seq, _ := strings.Cut(place, "-")
	from, waiting := cmp.Or(k.done[in.base], "-inf"), false
	for more := true; more && err == nil; {
		if err := ctx.Err(); err != nil {
			return exchanges, err
		}
		var list []goredis.Z
		counts, failed := ask(ctx, k.store, "cool", func(c client) (counts []int64, err error) {
			by := &goredis.ZRangeBy{Min: from, Max: "(" + score(before), Count: coolStep}
			if list, err = c.ZRangeByScoreWithScores(ctx, in.base+"seen", by).Result(); err != nil || len(list) == 0 {
				return nil, err
			}
			args := []any{ms, seq, score(before)}
			for _, z := range list {
				args = append(args, z.Member)
			}
			return k.store.runScript(ctx, c, "cool", in, args...).Int64Slice()
		})
		if more, err = len(list) == coolStep, failed; err != nil || len(counts) < 2 {
			break
		}
		exchanges += int(counts[0])
		from = "(" + strconv.FormatFloat(list[len(list)-1].Score, 'f', -1, 64)
		if waiting = waiting || counts[1] > 0; !waiting {
			k.done[in.base] = from
		}
	}
	if err != nil {
		return exchanges, fmt.Errorf("cool sessions: %w", err)
	}
	return exchanges, nil
}
