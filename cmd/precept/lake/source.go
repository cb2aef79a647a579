package lake

import (
	"context"
	"time"

	"precept/internal/session"
)

// Source is a store whose samples are copied into a lake. Each stream of samples is in the order of writing. A position
// identifies a sample in a stream, and "" is the position before the first sample.
type Source interface {
	// SampleStreams returns the position of the newest sample of each stream.
	SampleStreams(ctx context.Context) (map[string]string, error)
	// SamplesAfter returns the next samples of a stream, without deleted ones, between the positions after and until
	// ("": the end). last is the position that was reached; it equals after at the end.
	SamplesAfter(ctx context.Context, stream, after, until string) (list []session.StoredSample, last string, err error)
}

// GroupStore stores the positions and leases of consumer groups, which several processes share. Other programs read
// from the positions which samples a lake has.
type GroupStore interface {
	// SampleGroups returns the streams in which a group has acknowledged samples.
	SampleGroups(ctx context.Context, group string) (streams []string, err error)
	// AckSamples sets the positions of a group, and creates the group where it is missing.
	AckSamples(ctx context.Context, group string, positions map[string]string) error
	// AcquireLease acquires or renews a lease for ttl, and reports whether owner has the lease.
	AcquireLease(ctx context.Context, name, owner string, now time.Time, ttl time.Duration) (bool, error)
	// ReleaseLease ends a lease if owner has the lease.
	ReleaseLease(ctx context.Context, name, owner string) error
}
