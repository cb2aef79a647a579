package lake

import (
	"context"
	"time"

	"precept/internal/session"
)

// Source is a store with samples to copy into a lake. Each sample stream is in write order. A position identifies a
// sample in a stream, and "" is the position before the first sample.
type Source interface {
	// SampleStreams returns the newest sample's position in each stream.
	SampleStreams(ctx context.Context) (map[string]string, error)
	// SamplesAfter returns a stream's samples, without deleted ones, at the positions (after, until], or up to the
	// stream's end if until is "". last is the position that was reached, and equals after if there are no more
	// samples.
	SamplesAfter(ctx context.Context, stream, after, until string) (list []session.StoredSample, last string, err error)
}

// GroupStore stores the positions and leases for consumer groups that several processes share. The positions show other
// programs which samples a lake has.
type GroupStore interface {
	// SampleGroups returns the streams in which a group has acknowledged samples.
	SampleGroups(ctx context.Context, group string) (streams []string, err error)
	// AckSamples sets a group's positions, and creates a missing group.
	AckSamples(ctx context.Context, group string, positions map[string]string) error
	// AcquireLease acquires or renews a lease for ttl, and reports whether owner has the lease.
	AcquireLease(ctx context.Context, name, owner string, now time.Time, ttl time.Duration) (bool, error)
	// ReleaseLease ends a lease if owner has the lease.
	ReleaseLease(ctx context.Context, name, owner string) error
}
