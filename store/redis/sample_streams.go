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

func (s *Store) sampleKeys(ctx context.Context, c client) (keys []string, err error) {
	keyspaces, err := s.allKeyspaces(ctx, c)
	for _, ks := range keyspaces {
		keys = append(keys, ks.base+"samples")
	}
	return keys, err
}

const streamCalls = 500 // streams read or written in one pipeline

// SampleStreams returns the newest sample's position (entry id) in each sample stream, by stream key.
func (s *Store) SampleStreams(ctx context.Context) (map[string]string, error) {
	newest := map[string]string{}
	err := s.do(ctx, "sample streams", func(c client) error {
		keys, err := s.sampleKeys(ctx, c)
		if err != nil {
			return err
		}
		for chunk := range slices.Chunk(keys, streamCalls) {
			cmds, err := runPipelined(ctx, c, chunk, func(p goredis.Pipeliner, key string) *goredis.XMessageSliceCmd {
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

// SamplesAfter returns a stream's next samples after a position ("" means from the start), up to and including until
// ("" means to the end). last is the last returned sample's position, or the given one if no sample follows.
func (s *Store) SamplesAfter(ctx context.Context, stream, after, until string) (list []session.StoredSample, last string, err error) {
	last = after
	if !strings.HasPrefix(stream, s.prefix+":{") {
		return nil, "", fmt.Errorf("redis: %q is not a sample stream: %w", stream, session.ErrUnknownPosition)
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
			docs, err := runPipelined(ctx, c, chunk, func(p goredis.Pipeliner, e goredis.XMessage) *goredis.StringCmd {
				key, _ := e.Values["key"].(string)
				name, _ := e.Values["sample_id"].(string)
				return p.HGet(ctx, key, name)
			})
			if err != nil {
				return err
			}
			for i, d := range docs {
				if last = chunk[i].ID; d.Val() == "" { // the sample has been deleted
					continue
				}
				m, err := decodeSample(chunk[i].Values, d.Val())
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

// SampleGroups returns the streams in which a consumer group has acknowledged a sample.
func (s *Store) SampleGroups(ctx context.Context, group string) (streams []string, err error) {
	positions, err := s.groupPositions(ctx, group)
	for key, position := range positions {
		if position != streamStart {
			streams = append(streams, key)
		}
	}
	return streams, err
}

const streamStart = "0-0" // position before the first entry in a stream

func (s *Store) groupPositions(ctx context.Context, group string) (map[string]string, error) {
	positions := map[string]string{}
	err := s.do(ctx, "sample groups", func(c client) error {
		keys, err := s.sampleKeys(ctx, c)
		if err == nil {
			positions, _, err = readGroupPositions(ctx, c, keys, group)
		}
		return err
	})
	return positions, err
}

// readGroupPositions returns a consumer group's position in each stream that has the group, and counts the existing
// streams.
func readGroupPositions(ctx context.Context, c client, keys []string, group string) (positions map[string]string, streams int, err error) {
	positions = map[string]string{}
	for chunk := range slices.Chunk(keys, streamCalls) {
		var cmds []*goredis.XInfoGroupsCmd
		missing, err := runPipelinedKeys(ctx, c, chunk, func(p goredis.Pipeliner, key string) *goredis.XInfoGroupsCmd {
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
					positions[key] = g.LastDeliveredID
				}
			}
		}
	}
	return positions, streams, nil
}

// AckSamples sets a consumer group's position in each stream, and creates missing groups. The group has no pending
// entries, because the reader stores data before it acknowledges samples.
func (s *Store) AckSamples(ctx context.Context, group string, positions map[string]string) error {
	return s.do(ctx, "acknowledge samples", func(c client) error { return s.ackSamples(ctx, c, group, positions) })
}

func (s *Store) ackSamples(ctx context.Context, c client, group string, positions map[string]string) error {
	for chunk := range slices.Chunk(slices.Sorted(maps.Keys(positions)), streamCalls) {
		missing, err := runPipelinedKeys(ctx, c, chunk, func(p goredis.Pipeliner, key string) *goredis.StatusCmd {
			return p.XGroupSetID(ctx, key, group, positions[key])
		}, isMissingGroup)
		if err == nil {
			_, err = runPipelinedKeys(ctx, c, missing, func(p goredis.Pipeliner, key string) *goredis.StatusCmd {
				return p.XGroupCreate(ctx, key, group, positions[key])
			}, isMissingStream)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// runPipelinedKeys runs a command for each key in one pipeline, and returns the keys whose command failed with an
// expected error.
func runPipelinedKeys[C goredis.Cmder](ctx context.Context, c client, keys []string, command func(p goredis.Pipeliner, key string) C, isExpected func(error) bool) (failed []string, err error) {
	pipe := c.Pipeline()
	cmds := make([]C, len(keys))
	for i, key := range keys {
		cmds[i] = command(pipe, key)
	}
	if len(keys) > 0 {
		_, _ = pipe.Exec(ctx) // each command has a separate error
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

func isMissingGroup(err error) bool {
	return strings.HasPrefix(err.Error(), "NOGROUP") || isMissingStream(err)
}

// isMissingStream reports whether a stream does not exist, because there was no sample yet or Redis has lost the
// stream.
func isMissingStream(err error) bool {
	return strings.Contains(err.Error(), "no such key") || strings.Contains(err.Error(), "requires the key to exist")
}
