package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"precept/internal/session"
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
	client  client
	prefix  string
	scripts map[string]*goredis.Script // by the names of their files

	slow  breaker // of what the recorder does
	quick breaker // of what a request waits for

	closed chan struct{}
	once   sync.Once
	known  registered
	epoch  atomic.Pointer[string] // as told last
}

// client is one server, a Sentinel group or a Cluster.
type client = goredis.UniversalClient

// Open makes a store. It does not ask Redis for anything: use Ping to learn whether it is there.
func Open(o Options) (*Store, error) {
	a, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	o.MaxParked = cmp.Or(o.MaxParked, 100_000)
	o.MaxFeedback = cmp.Or(o.MaxFeedback, session.MostFeedback)
	o.Timeout = cmp.Or(o.Timeout, ioTimeout)
	s := &Store{
		opt: o, prefix: a.prefix, closed: make(chan struct{}),
		slow: breaker{period: retryEvery}, quick: breaker{period: lookupEvery, most: 2},
	}
	if s.scripts, err = loadScripts(); err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	s.client = a.connect(o.Timeout, s.known.clear)
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
	return s.ended("ping", &s.slow, explain(ctx, s.client.Ping(ctx).Err()))
}

// do runs an operation of the recorder, of a verb or of a dashboard: something that may take a
// moment.
func (s *Store) do(ctx context.Context, op string, fn func(c client) error) error {
	return s.through(ctx, op, &s.slow, fn)
}

// look runs a look-up that a request waits for.
func (s *Store) look(ctx context.Context, op string, fn func(c client) error) error {
	return s.through(ctx, op, &s.quick, fn)
}

// ask is do for what has one answer, which is the zero one where Redis says that there is no such
// thing.
func ask[T any](ctx context.Context, s *Store, op string, fn func(c client) (T, error)) (answer T, err error) {
	err = s.do(ctx, op, func(c client) error {
		answer, err = fn(c)
		return err
	})
	return answer, err
}

// through runs an operation behind a breaker. Look-ups do not go out either while the recorder's is
// open.
func (s *Store) through(ctx context.Context, op string, b *breaker, fn func(c client) error) error {
	select {
	case <-s.closed:
		return fmt.Errorf("redis: %w", ErrClosed)
	default:
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	now := s.opt.Now()
	if b == &s.quick && s.slow.open(now) || !b.allow(now) {
		return fmt.Errorf("redis: %s: %w (asked again every %v)", op, ErrDown, b.period)
	}
	return s.ended(op, b, explain(ctx, fn(s.client)))
}

// ended tells the breaker how a call ended, and the caller, too. When Redis answers the recorder,
// look-ups may go out again as well.
func (s *Store) ended(op string, b *breaker, err error) error {
	failed := errors.Is(err, context.DeadlineExceeded) || unreachable(err)
	if !errors.Is(err, context.Canceled) { // the caller left; that says nothing of Redis
		b.note(s.opt.Now(), failed)
		if b == &s.slow && !failed {
			s.quick.note(s.opt.Now(), false)
		}
	}
	if err == nil || absent(err) {
		return nil
	}
	return fmt.Errorf("redis: %s: %w", op, err)
}
