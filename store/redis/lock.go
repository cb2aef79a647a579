package redis

import (
	"context"
	"fmt"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// Lease is a lock that was taken. Its holder may be stopped for longer than it lasts and not know
// that another has it; the token tells: it grows with every taking, and what is written under an
// old one is refused.
type Lease struct {
	Token int64

	s           *Store
	name, owner string
}

// Lock takes the lock of that name for a time, or makes it last longer when owner has it already.
// It is nil when somebody else has it. owner is unique among all processes, and the same for all of
// this one's calls.
func (s *Store) Lock(ctx context.Context, name, owner string, ttl time.Duration) (*Lease, error) {
	n, err := s.lock(ctx, "take", name, "0", owner, millis(ttl))
	if err != nil || n == 0 {
		return nil, err
	}
	return &Lease{Token: int64(n), s: s, name: name, owner: owner}, nil
}

// Renew makes the lock last for that time from now. ErrLost says that it is another's, or nobody's.
func (l *Lease) Renew(ctx context.Context, ttl time.Duration) error {
	return l.held(l.s.lock(ctx, "renew", l.name, l.token(), l.owner, millis(ttl)))
}

// Free gives the lock back. ErrLost says that it was lost before.
func (l *Lease) Free(ctx context.Context) error {
	return l.held(l.s.lock(ctx, "free", l.name, l.token(), l.owner))
}

// SetMeta sets one of the program's own values while the lock is held, in one step: with ErrLost
// nothing was written.
func (l *Lease) SetMeta(ctx context.Context, key string, value []byte) error {
	return l.held(l.s.lock(ctx, "set", l.name, l.token(), l.owner, key, string(value)))
}

func (l *Lease) token() string { return strconv.FormatInt(l.Token, 10) }

func (l *Lease) held(n int, err error) error {
	if err == nil && n == 0 {
		return fmt.Errorf("redis: %s: %w", l.name, ErrLost)
	}
	return err
}

func (s *Store) lock(ctx context.Context, args ...any) (int, error) {
	k := &call{script: &s.scripts.lock, base: s.shared(""), args: args}
	err := s.do(ctx, "lock", func(c goredis.UniversalClient) error { return run(ctx, c, []*call{k}) })
	return k.number(), err
}

func millis(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 1), 10) }
