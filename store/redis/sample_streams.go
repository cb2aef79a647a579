package redis

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"precept/internal/session"
)

// sampleKeys returns the keys of all streams of samples: a tenant has a stream in each shard.
func (s *Store) sampleKeys(ctx context.Context, c client) (keys []string, err error) {
	keyspaces, err := s.allKeyspaces(ctx, c)
	for _, ks := range keyspaces {
		keys = append(keys, ks.base+"samples")
	}
	return keys, err
}

// streamCalls is the number of streams that one pipeline asks.
const streamCalls = 500

// SampleStreams returns the place of the newest sample of each stream of samples. The name of a
// stream is its key.
func (s *Store) SampleStreams(ctx context.Context) (map[string]string, error) {
	newest := map[string]string{}
	err := s.do(ctx, "streams of samples", func(c client) error {
		keys, err := s.sampleKeys(ctx, c)
		if err != nil {
			return err
		}
		for chunk := range slices.Chunk(keys, streamCalls) {
			cmds, err := piped(ctx, c, chunk, func(p goredis.Pipeliner, key string) *goredis.XMessageSliceCmd {
				return p.XRevRangeN(ctx, key, "+", "-", 1)
			})
			if err != nil {
				return err
			}
			for i, key := range chunk {
				if last := cmds[i].Val(); len(last) > 0 {
					newest[key] = last[0].ID
				}
			}
		}
		return nil
	})
	return newest, err
}

// SamplesAfter returns the next samples of a stream after a place ("" means the beginning) up to the
// place until ("" means the end), and the place of the last of them. If last equals after, no sample follows.
func (s *Store) SamplesAfter(ctx context.Context, stream, after, until string) (list []session.StoredSample, last string, err error) {
	last = after
	if !strings.HasPrefix(stream, s.prefix+":{") {
		return nil, "", fmt.Errorf("redis: %q is no stream of samples: %w", stream, session.ErrPlace)
	}
	from := "-"
	if after != "" {
		from = "(" + after
	}
	err = s.do(ctx, "read samples", func(c client) error {
		entries, err := c.XRangeN(ctx, stream, from, cmp.Or(until, "+"), pageRefs).Result()
		if err != nil {
			return err
		}
		for chunk := range slices.Chunk(entries, pageDocs) {
			docs, err := piped(ctx, c, chunk, func(p goredis.Pipeliner, e goredis.XMessage) *goredis.StringCmd {
				key, _ := e.Values["key"].(string)
				name, _ := e.Values["sample_id"].(string)
				return p.HGet(ctx, key, name)
			})
			if err != nil {
				return err
			}
			for i, d := range docs {
				if last = chunk[i].ID; d.Val() == "" { // deleted meanwhile
					continue
				}
				m, err := toSample(chunk[i].Values, d.Val())
				if err != nil {
					return err
				}
				list = append(list, m)
			}
		}
		return nil
	})
	if err != nil {
		return nil, after, err
	}
	return list, last, nil
}

// SampleGroups returns the streams in which a consumer group has a place after the start.
func (s *Store) SampleGroups(ctx context.Context, group string) (streams []string, err error) {
	positions, err := s.groupPlaces(ctx, group)
	for key, place := range positions {
		if place != streamStart {
			streams = append(streams, key)
		}
	}
	return streams, err
}

// streamStart is the place before the first entry of a stream.
const streamStart = "0-0"

// groupPlaces returns the place of a consumer group in each stream that has the group.
func (s *Store) groupPlaces(ctx context.Context, group string) (map[string]string, error) {
	places := map[string]string{}
	err := s.do(ctx, "groups of samples", func(c client) error {
		keys, err := s.sampleKeys(ctx, c)
		if err == nil {
			places, _, err = groupPlacesOf(ctx, c, keys, group)
		}
		return err
	})
	return places, err
}

// groupPlacesOf returns the place of a consumer group in each of some streams that has the group, and the
// number of streams that exist.
func groupPlacesOf(ctx context.Context, c client, keys []string, group string) (places map[string]string, streams int, err error) {
	places = map[string]string{}
	for chunk := range slices.Chunk(keys, streamCalls) {
		var cmds []*goredis.XInfoGroupsCmd
		missing, err := pipeEach(ctx, c, chunk, func(p goredis.Pipeliner, key string) *goredis.XInfoGroupsCmd {
			cmds = append(cmds, p.XInfoGroups(ctx, key))
			return cmds[len(cmds)-1]
		}, isMissingStream)
		if err != nil {
			return nil, 0, err
		}
		streams += len(chunk) - len(missing)
		for i, key := range chunk {
			for _, g := range cmds[i].Val() {
				if g.Name == group {
					places[key] = g.LastDeliveredID
				}
			}
		}
	}
	return places, streams, nil
}

// AckSamples moves a consumer group to a place in each stream, and creates the group in streams without
// the group. The group holds the durable position of a reader. No entries are pending, because the reader
// stores its data before the group moves.
func (s *Store) AckSamples(ctx context.Context, group string, places map[string]string) error {
	return s.do(ctx, "acknowledge samples", func(c client) error { return s.ackSamples(ctx, c, group, places) })
}

func (s *Store) ackSamples(ctx context.Context, c client, group string, places map[string]string) error {
	for chunk := range slices.Chunk(slices.Sorted(maps.Keys(places)), streamCalls) {
		missing, err := pipeEach(ctx, c, chunk, func(p goredis.Pipeliner, key string) *goredis.StatusCmd {
			return p.XGroupSetID(ctx, key, group, places[key])
		}, isMissingGroup)
		if err == nil {
			_, err = pipeEach(ctx, c, missing, func(p goredis.Pipeliner, key string) *goredis.StatusCmd {
				return p.XGroupCreate(ctx, key, group, places[key])
			}, isMissingStream)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pipeEach runs a command for each key, and returns the keys whose command failed with an expected
// error.
func pipeEach[C goredis.Cmder](ctx context.Context, c client, keys []string, command func(p goredis.Pipeliner, key string) C, isExpected func(error) bool) (failed []string, err error) {
	pipe := c.Pipeline()
	cmds := make([]C, len(keys))
	for i, key := range keys {
		cmds[i] = command(pipe, key)
	}
	if len(keys) > 0 {
		_, _ = pipe.Exec(ctx) // each command has its own error
	}
	for i, cmd := range cmds {
		switch err := cmd.Err(); {
		case err == nil:
		case isExpected(err):
			failed = append(failed, keys[i])
		default:
			return nil, err
		}
	}
	return failed, nil
}

// isMissingGroup reports whether a command failed because a stream lacks the consumer group, or does
// not exist.
func isMissingGroup(err error) bool {
	return strings.HasPrefix(err.Error(), "NOGROUP") || isMissingStream(err)
}

// isMissingStream reports whether a command failed because its stream does not exist: Redis lost the
// stream, or the stream has no sample yet.
func isMissingStream(err error) bool {
	return strings.Contains(err.Error(), "no such key") || strings.Contains(err.Error(), "requires the key to exist")
}
