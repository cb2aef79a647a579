package lake

import (
	"context"
	"time"

	"precept/internal/session"
)

// Source is a store whose samples are copied into a lake. A store has one or more streams of samples. Each stream is
// in the order of writing. A position identifies a sample in a stream. Its format depends on the store, and "" is the
// position before the first sample.
type Source interface {
	// SampleStreams returns the position of the newest sample of each stream.
	SampleStreams(ctx context.Context) (map[string]string, error)
	// SamplesAfter returns the next samples of a stream. The samples follow the position after, and end at the
	// position until or, if until is "", at the end of the stream. Deleted samples are left out. last is the position
	// up to which SamplesAfter has read. At the end, last equals after.
	SamplesAfter(ctx context.Context, stream, after, until string) (list []session.StoredSample, last string, err error)
}

// GroupStore is a store of the positions and leases of consumer groups, which several processes share. Other programs
// read from the positions which samples a lake has.
type GroupStore interface {
	// SampleGroups returns the streams in which a group has acknowledged samples.
	SampleGroups(ctx context.Context, group string) (streams []string, err error)
	// AckSamples sets the positions of a group. AckSamples creates the group in each stream that lacks it.
	AckSamples(ctx context.Context, group string, positions map[string]string) error
	// AcquireLease acquires or renews a lease for ttl, and reports whether owner has the lease.
	AcquireLease(ctx context.Context, name, owner string, now time.Time, ttl time.Duration) (bool, error)
	// ReleaseLease ends a lease if owner has the lease.
	ReleaseLease(ctx context.Context, name, owner string) error
}
