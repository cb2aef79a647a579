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

// Redis client limits. A look-up for a waiting request has the shorter limits.lookup_timeout (45 ms).
const (
	dialTimeout = time.Second     // longest time to connect
	ioTimeout   = 3 * time.Second // default for Options.Timeout
	poolTimeout = time.Second     // longest wait for a free connection in the pool
	poolSize    = 16              // connections to a server
	connIdle    = 5 * time.Minute // a connection idle for longer is closed

	retryEvery  = time.Second     // time between two Store.breaker probes
	lookupEvery = 5 * time.Second // time between two Store.lookupBreaker probes, unless another operation succeeds
)

// Options configure a Store.
type Options struct {
	// URL is the Redis address, see parseURL.
	URL string
	Now func() time.Time
	// Timeout limits one command, including the reply; 0 means 3 s.
	Timeout time.Duration
	// MaxParked limits a tenant's parked feedback entries; 0 means 100,000.
	MaxParked int
	// MaxFeedback limits a session's feedback entries, and the parked entries under one echo key; 0 means
	// session.MaxFeedback.
	MaxFeedback int
	// Shards is the shard count in a new store; 0 means 256. An existing store keeps the old count.
	Shards int
	// OnUnreplicated, if set, is called if a failover could lose a change to the lessons, because AwaitReplicas failed.
	OnUnreplicated func(err error)
}

// Store is a store in Redis, safe for concurrent use.
type Store struct {
	options   Options
	client    client
	prefix    string
	user      string
	tlsParams tlsParams
	scripts   map[string]*goredis.Script

	breaker       breaker // circuit breaker for all operations except look-ups
	lookupBreaker breaker // circuit breaker for look-ups with a waiting request

	hasConnected atomic.Bool // Redis has accepted a connection

	closed            chan struct{}
	closeOnce         sync.Once
	registeredTenants tenantSet
	epoch             atomic.Pointer[string] // nil means not read yet
	shards            atomic.Int64           // 1 means the old layout (one shard for each tenant), 0 not read yet
	tags              [maxShards]string      // shards' hash tags
	layoutUncertain   atomic.Bool            // Redis might have lost the shard count, so it is read again
	progress          progress
}

// client is a connection to one server, a Sentinel group or a Cluster.
type client = goredis.UniversalClient

// Open returns a store, and does not call Redis. Ping reports whether Redis answers.
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
		options: o, prefix: a.prefix, user: cmp.Or(a.Username, "default"), tlsParams: a.tlsParams, closed: make(chan struct{}), tags: shardTags(),
		breaker: breaker{period: retryEvery}, lookupBreaker: breaker{period: lookupEvery, maxFailures: 2},
	}
	if s.scripts, err = loadScripts(); err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	s.client = a.connect(o.Timeout, func() {
		s.hasConnected.Store(true)
		s.markUncertain()
	})
	return s, nil
}

// markUncertain makes the next write check the tenant list and the shard count, because Redis might have lost data.
func (s *Store) markUncertain() {
	s.registeredTenants.clear()
	s.layoutUncertain.Store(true)
}

// Close closes the store. Close can be called twice.
func (s *Store) Close() error {
	var err error
	s.closeOnce.Do(func() {
		close(s.closed)
		err = s.client.Close()
	})
	return err
}

// Ping reports whether Redis answers and accepts precept's login. It calls Redis even if the breaker is open.
func (s *Store) Ping(ctx context.Context) error {
	err := classifyError(ctx, s.client.Ping(ctx).Err())
	if errors.Is(err, context.DeadlineExceeded) && !isClassified(err) {
		err = fmt.Errorf("%w: %w", ErrDown, err)
	}
	return s.endCall("ping", &s.breaker, s.withRemedy(err))
}

// do calls fn, unless the circuit breaker refuses the call. op names the call in errors.
func (s *Store) do(ctx context.Context, op string, fn func(c client) error) error {
	return s.doWithBreaker(ctx, op, &s.breaker, fn)
}

// lookUp is like do, for a look-up that a request waits for.
func (s *Store) lookUp(ctx context.Context, op string, fn func(c client) error) error {
	return s.doWithBreaker(ctx, op, &s.lookupBreaker, fn)
}

// doValue is like do, for a function with a result. A missing value is the zero value.
func doValue[T any](ctx context.Context, s *Store, op string, fn func(c client) (T, error)) (value T, err error) {
	err = s.do(ctx, op, func(c client) error {
		value, err = fn(c)
		return err
	})
	return value, err
}

// doWithBreaker runs fn unless the breaker b refuses the call. A look-up is also refused while Store.breaker is open.
func (s *Store) doWithBreaker(ctx context.Context, op string, b *breaker, fn func(c client) error) error {
	select {
	case <-s.closed:
		return fmt.Errorf("redis: %w", ErrClosed)
	default:
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	now := s.options.Now()
	if b == &s.lookupBreaker && s.breaker.isOpen(now) {
		return fmt.Errorf("redis: %s: %w", op, s.breaker.refusal())
	}
	if !b.allow(now) {
		return fmt.Errorf("redis: %s: %w", op, b.refusal())
	}
	var err error
	if s.shards.Load() <= 1 { // a store in the old layout can move to shards at any time (migrate.go)
		err = s.readLayout(ctx, s.client)
	}
	n := s.shards.Load()
	if err == nil {
		err = fn(s.client)
	}
	if err == nil && s.shards.Load() != n {
		err = ErrMovedToShards
	}
	return s.endCall(op, b, s.withRemedy(classifyError(ctx, err)))
}

// endCall records a call's result in the breaker, and wraps the error. If a call that is not a look-up succeeds,
// endCall also closes the look-up breaker.
func (s *Store) endCall(op string, b *breaker, err error) error {
	failed := errors.Is(err, context.DeadlineExceeded) || isUnreachable(err)
	if !errors.Is(err, context.Canceled) { // a cancelled call says nothing about Redis
		if !failed {
			b.recordSuccess()
		} else {
			b.recordFailure(s.options.Now(), err)
		}
		if b == &s.breaker && !failed {
			s.lookupBreaker.recordSuccess()
		}
	}
	if err == nil || isAbsent(err) {
		return nil
	}
	return fmt.Errorf("redis: %s: %w", op, err)
}

// breaker is a circuit breaker. A closed breaker lets every call through. An open breaker lets one call through after
// each period, as a probe, and refuses all others without waiting.
type breaker struct {
	period      time.Duration
	maxFailures int // consecutive failures tolerated by a closed breaker; a short call can fail by chance

	mu        sync.Mutex
	failures  int
	failure   error
	openUntil time.Time // zero means closed
}

// allow reports whether a call can be sent. Once an open breaker has let a probe through, it refuses all other calls
// until the probe succeeds or another period has passed.
func (b *breaker) allow(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.openUntil.IsZero() {
		return true
	}
	if now.Before(b.openUntil) {
		return false
	}
	b.openUntil = now.Add(b.period)
	return true
}

func (b *breaker) isOpen(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return now.Before(b.openUntil)
}

func (b *breaker) recordSuccess() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures, b.failure, b.openUntil = 0, nil, time.Time{}
}

func (b *breaker) recordFailure(now time.Time, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failure = err
	if b.failures++; b.failures > b.maxFailures {
		b.openUntil = now.Add(b.period)
	}
}

// refusal returns the error for a refused call. The error has the last failure's text, but wraps only ErrDown or
// ErrTLS, because the refused call itself did not time out.
func (b *breaker) refusal() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &refusedCall{kind: ErrDown, text: ErrDown.Error()}
	if isUnreachable(b.failure) {
		r.text = b.failure.Error()
		if errors.Is(b.failure, ErrTLS) {
			r.kind = ErrTLS
		}
	}
	r.text += fmt.Sprintf(" (precept tries again every %v)", b.period)
	return r
}

type refusedCall struct {
	kind error // ErrDown or ErrTLS
	text string
}

func (r *refusedCall) Error() string { return r.text }

func (r *refusedCall) Unwrap() error { return r.kind }

// isUnreachable reports whether Redis does not answer. A refused call does not open a breaker, because no time was
// spent waiting.
func isUnreachable(err error) bool { return errors.Is(err, ErrDown) || errors.Is(err, ErrTLS) }
