package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"precept/session"
)

// The client's bounds. A request waits for none of them: its look-up has a context of
// limits.lookup_timeout, 45 ms.
const (
	dialTimeout = time.Second
	ioTimeout   = 3 * time.Second
	poolTimeout = time.Second
	poolSize    = 16
	connIdle    = 5 * time.Minute

	retryEvery  = time.Second     // how often a Redis that does not answer is asked by the recorder
	lookupEvery = 5 * time.Second // and by look-ups, unless the recorder got through meanwhile
)

// Options say where the store lies and how it behaves.
type Options struct {
	URL string // see ParseURL
	// Now drives the breaker. Nothing else here has a clock.
	Now func() time.Time
	// Timeout bounds one exchange of a command and its answer with the server (3 s).
	Timeout time.Duration
	// MaxParked bounds the early feedback of one tenant that waits, in entries (100,000).
	MaxParked int
	// MaxFeedback bounds a session's set of feedback, and what waits for one key
	// (session.MostFeedback).
	MaxFeedback int
}

// Store is a store in Redis. It is safe for concurrent use, also by other processes on the same
// Redis.
type Store struct {
	opt     Options
	client  goredis.UniversalClient
	prefix  string
	scripts scripts

	slow  breaker // of what the recorder does
	quick breaker // of what a request waits for

	closed chan struct{}
	once   sync.Once
	known  registered
	epoch  atomic.Pointer[string] // as told last
}

// Open makes a store. It does not ask Redis for anything: use Ping to learn whether it is there.
func Open(o Options) (*Store, error) {
	a, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	if o.MaxParked <= 0 {
		o.MaxParked = 100_000
	}
	if o.MaxFeedback <= 0 {
		o.MaxFeedback = session.MostFeedback
	}
	if o.Timeout <= 0 {
		o.Timeout = ioTimeout
	}
	s := &Store{
		opt: o, prefix: a.prefix, closed: make(chan struct{}),
		slow: breaker{period: retryEvery}, quick: breaker{period: lookupEvery, most: 2},
	}
	if s.scripts, err = loadScripts(); err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	s.client = connect(a, o.Timeout, s.known.clear)
	return s, nil
}

// Close ends the store. Twice is fine.
func (s *Store) Close() error {
	var err error
	s.once.Do(func() {
		close(s.closed)
		err = s.client.Close()
	})
	return err
}

// Ping asks whether Redis is there and takes us, once, whatever the breaker says.
func (s *Store) Ping(ctx context.Context) error {
	err := explain(ctx, s.client.Ping(ctx).Err())
	s.note(ctx, err)
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	return nil
}

// do runs an operation of the recorder, of a verb or of a dashboard: something that may take a
// moment.
func (s *Store) do(ctx context.Context, op string, fn func(c goredis.UniversalClient) error) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	if !s.slow.allow(s.opt.Now()) {
		return fmt.Errorf("redis: %s: %w (asked again every %v)", op, ErrDown, retryEvery)
	}
	err := explain(ctx, fn(s.client))
	s.note(ctx, err)
	if err != nil && !absent(err) {
		return fmt.Errorf("redis: %s: %w", op, err)
	}
	return nil
}

// note tells the breakers how a call ended. When Redis answers the recorder, look-ups may go out
// again, too.
func (s *Store) note(ctx context.Context, err error) {
	switch {
	case errors.Is(err, context.DeadlineExceeded) || unreachable(err):
		s.slow.note(s.opt.Now(), true)
	case ctx.Err() != nil: // the caller left; that says nothing of Redis
	default:
		s.slow.note(s.opt.Now(), false)
		s.quick.note(s.opt.Now(), false)
	}
}

// look runs a look-up that a request waits for.
func (s *Store) look(ctx context.Context, op string, fn func(c goredis.UniversalClient) error) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	now := s.opt.Now()
	if s.slow.open(now) || !s.quick.allow(now) {
		return fmt.Errorf("redis: %s: %w (asked again every %v)", op, ErrDown, lookupEvery)
	}
	err := explain(ctx, fn(s.client))
	switch {
	case errors.Is(err, context.Canceled): // the client left
	case errors.Is(err, context.DeadlineExceeded) || unreachable(err):
		s.quick.note(s.opt.Now(), true)
	default:
		s.quick.note(s.opt.Now(), false)
	}
	if err != nil && !absent(err) {
		return fmt.Errorf("redis: %s: %w", op, err)
	}
	return nil
}

func (s *Store) usable(ctx context.Context) error {
	select {
	case <-s.closed:
		return fmt.Errorf("redis: %w", ErrClosed)
	default:
		return ctx.Err()
	}
}
