package lake

import (
	"context"
	"time"

	"precept/internal/session"
)

// Source is a store whose samples a Follower drains. A store has one or more streams of samples, each
// in the order of the writes. A position is a place in a stream, in a form of the store; "" is the place before
// the first sample.
type Source interface {
	// SampleStreams returns the position of the newest sample of each stream.
	SampleStreams(ctx context.Context) (map[string]string, error)
	// SamplesAfter returns the next samples after the position after, up to the position until ("" means to the end).
	// Deleted samples are left out. last is the position up to which SamplesAfter has read. At the end of the stream,
	// last is equal to after.
	SamplesAfter(ctx context.Context, stream, after, until string) (list []session.StoredSample, last string, err error)
}

// Group is the part of a shared store that keeps the positions of consumer groups. From the positions, other programs
// read which samples the lake has.
type Group interface {
	// SampleGroups returns the streams with samples that a group has acknowledged.
	SampleGroups(ctx context.Context, group string) (streams []string, err error)
	// AckSamples moves a group to positions, and creates the group where it is missing.
	AckSamples(ctx context.Context, group string, positions map[string]string) error
	// Claim acquires or renews the lease of owner on a piece of work for ttl, and reports whether owner holds the
	// lease.
	Claim(ctx context.Context, name, owner string, now time.Time, ttl time.Duration) (bool, error)
	// ReleaseClaim ends the lease of owner.
	ReleaseClaim(ctx context.Context, name, owner string) error
}
