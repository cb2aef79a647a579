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

// Bounds of the client. A look-up that a request waits for has a shorter bound, limits.lookup_timeout
// (45 ms).
const (
	dialTimeout = time.Second
	ioTimeout   = 3 * time.Second
	poolTimeout = time.Second
	poolSize    = 16
	connIdle    = 5 * time.Minute

	retryEvery  = time.Second     // pause between two probes of Store.slow
	lookupEvery = 5 * time.Second // pause between two probes of Store.quick, unless another operation succeeds meanwhile
)

// Options configure a Store.
type Options struct {
	// URL is the address of Redis, in one of the forms that parseURL lists.
	URL string
	// Now returns the present time.
	Now func() time.Time
	// Timeout bounds one command and its reply; 0 means 3 s.
	Timeout time.Duration
	// MaxParked bounds the parked feedback of one tenant, in entries; 0 means 100,000.
	MaxParked int
	// MaxFeedback bounds the feedback of a session, and the parked feedback of a key; 0:
	// session.MaxFeedback.
	MaxFeedback int
	// Shards is the number of shards of a store that is created; 0 means 256. An existing store keeps its
	// number.
	Shards int
}

// Store is a store in Redis. Several goroutines and processes may use the same Redis at once.
type Store struct {
	opt       Options
	client    client
	prefix    string
	user      string                     // user in the address
	tlsParams tlsParams                  // TLS parameters in the address
	scripts   map[string]*goredis.Script // by the names of their files

	slow  breaker // breaker for all operations but look-ups
	quick breaker // breaker for look-ups that a request waits for

	closed   chan struct{}
	once     sync.Once
	known    registered
	epoch    atomic.Pointer[string] // last known epoch
	shards   atomic.Int64           // number of shards of the store; 1: the old layout, 0 means not read yet
	tags     [maxShards]string      // hash tags of the shards
	doubt    atomic.Bool            // Redis may have lost the number of shards
	progress progress
}

// client is a connection to one server, a Sentinel group or a Cluster.
type client = goredis.UniversalClient

// Open returns a store, without a call to Redis. Ping reports whether Redis answers.
func Open(o Options) (*Store, error) {
	a, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	o.MaxParked = cmp.Or(o.MaxParked, 100_000)
	o.MaxFeedback = cmp.Or(o.MaxFeedback, session.MaxFeedback)
	o.Timeout = cmp.Or(o.Timeout, ioTimeout)
	o.Shards = cmp.Or(o.Shards, maxShards)
	s := &Store{
		opt: o, prefix: a.prefix, user: cmp.Or(a.Username, "default"), tlsParams: a.tlsParams, closed: make(chan struct{}), tags: shardTags(),
		slow: breaker{period: retryEvery}, quick: breaker{period: lookupEvery, maxFailures: 2},
	}
	if s.scripts, err = loadScripts(); err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	s.client = a.connect(o.Timeout, s.suspect)
	return s, nil
}

// suspect makes the next write check the list of tenants and the number of shards: a server of a new
// connection may have lost data.
func (s *Store) suspect() {
	s.known.clear()
	s.doubt.Store(true)
}

// Close closes the store. Close may be called twice.
func (s *Store) Close() error {
	var err error
	s.once.Do(func() {
		close(s.closed)
		err = s.client.Close()
	})
	return err
}

// Ping asks once whether Redis accepts precept, without regard to the breaker.
func (s *Store) Ping(ctx context.Context) error {
	return s.endCall("ping", &s.slow, s.withRemedy(explain(ctx, s.client.Ping(ctx).Err())))
}

// do runs an operation that no request waits for, such as a delivery, a closing or a page.
func (s *Store) do(ctx context.Context, op string, fn func(c client) error) error {
	return s.through(ctx, op, &s.slow, fn)
}

// lookUp runs a look-up that a request waits for.
func (s *Store) lookUp(ctx context.Context, op string, fn func(c client) error) error {
	return s.through(ctx, op, &s.quick, fn)
}

// ask calls do and returns the result of fn, or the zero value if Redis has no such value.
func ask[T any](ctx context.Context, s *Store, op string, fn func(c client) (T, error)) (answer T, err error) {
	err = s.do(ctx, op, func(c client) error {
		answer, err = fn(c)
		return err
	})
	return answer, err
}

// through runs an operation behind a breaker. While slow is open, look-ups are refused as well.
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
	var err error
	if s.shards.Load() <= 1 { // a store in the old layout may move to shards at any time (migrate.go)
		err = s.readLayout(ctx, s.client)
	}
	n := s.shards.Load()
	if err == nil {
		err = fn(s.client)
	}
	if err == nil && s.shards.Load() != n {
		err = ErrMoving
	}
	return s.endCall(op, b, s.withRemedy(explain(ctx, err)))
}

// endCall reports the end of a call to the breaker, and wraps the error. A successful call behind slow also
// closes quick.
func (s *Store) endCall(op string, b *breaker, err error) error {
	failed := errors.Is(err, context.DeadlineExceeded) || unreachable(err)
	if !errors.Is(err, context.Canceled) { // the caller cancelled the call, so the call says nothing about Redis
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

// breaker bounds the cost of a Redis that does not answer to one wait in each period. A closed
// breaker lets every call through. An open breaker lets one call through at the end of each period,
// as a probe, and refuses all others at once.
type breaker struct {
	period      time.Duration
	maxFailures int // failures in a row that leave the breaker closed: on a busy machine a short wait may time out by chance

	mu     sync.Mutex
	failed int       // consecutive failures
	until  time.Time // end of the open period; zero means closed
}

// allow reports whether a call may go out. During a probe the breaker stays open for all other
// calls.
func (b *breaker) allow(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until.IsZero() {
		return true
	}
	if now.Before(b.until) {
		return false
	}
	b.until = now.Add(b.period)
	return true
}

// open reports whether calls are refused now.
func (b *breaker) open(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return now.Before(b.until)
}

// note records the end of a call.
func (b *breaker) note(now time.Time, failed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !failed {
		b.failed, b.until = 0, time.Time{}
	} else if b.failed++; b.failed > b.maxFailures {
		b.until = now.Add(b.period)
	}
}

// unreachable reports whether an error means that Redis does not answer. A Redis that refuses a call at
// once needs no breaker.
func unreachable(err error) bool { return errors.Is(err, ErrDown) || errors.Is(err, ErrTLS) }
