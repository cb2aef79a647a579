package admin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"precept/internal/redact"
)

// sharedCache computes slow values for all pages, such as a report about thousands of lessons. Requests for the same
// key share one computation. A sharedCache runs one computation at a time, so that it takes at most one core. If a key
// has an old value, a page waits at most maxPageWait for a newer value, and then gets the old value. While no worker
// runs (see run), each request computes its own value.
type sharedCache[K comparable, V any] struct {
	now         func() time.Time
	compute     func(context.Context, K) (V, error)
	maxAge      func(took time.Duration) time.Duration // maximum age of a value that is served without a new computation
	renewAfter  func(took time.Duration) time.Duration // age at which the worker recomputes a value without a page request; 0 means never
	removeAfter time.Duration                          // time without a page request after which a value is removed; 0 means never

	flights   singleflight.Group // at most one flight, which is a shared computation, for each key
	semaphore chan struct{}      // admits one computation at a time

	mu            sync.Mutex
	workerContext context.Context // context of the worker; nil while no worker runs
	clearCount    int             // number of calls of clear
	expireCount   int             // number of calls of expire
	pendingCount  int             // number of flights that wait for the semaphore or run compute
	values        map[K]*cachedValue[V]
}

// cachedValue is the newest value of a key.
type cachedValue[V any] struct {
	value       V
	err         error
	startedAt   time.Time // start of the computation
	duration    time.Duration
	requestedAt time.Time // last request of a page
	pinned      bool      // exempt from evict and from maxIdle
}

const (
	maxPageWait = 100 * time.Millisecond // maximum time that a page waits for a newer value
	maxShared   = 16                     // maximum number of stored values, and of pending flights
	renewEvery  = 5 * time.Second        // interval between checks for values to recompute
	maxIdle     = time.Hour              // the worker does not renew a value that no page requested for this time
	noOldValue  = -1                     // value of maxWait for a program, which cannot see that a value is old
)

// errComputing is the error of a key whose first computation takes longer than the caller waits.
var errComputing = errors.New("the first computation is not finished yet; reload the page")

func newSharedCache[K comparable, V any](now func() time.Time, compute func(context.Context, K) (V, error), maxAge, renewAfter func(time.Duration) time.Duration) *sharedCache[K, V] {
	return &sharedCache[K, V]{now: now, compute: compute, maxAge: maxAge, renewAfter: renewAfter, semaphore: make(chan struct{}, 1), values: map[K]*cachedValue[V]{}}
}

// get returns the value of a key. old reports that the value is older than maxAge allows, because the computation of a
// newer value has not finished or cannot start. For a key without a value, get waits at most maxWait, and then returns
// errComputing. A maxWait of 0 means no limit. With noOldValue, get waits for a newer value without a limit, and
// returns errComputing if the computation cannot start.
func (s *sharedCache[K, V]) get(ctx context.Context, key K, maxWait time.Duration) (v V, old bool, err error) {
	s.mu.Lock()
	if s.workerContext == nil {
		s.mu.Unlock()
		v, err = s.compute(ctx, key)
		return v, false, err
	}
	previous, limit := cachedValue[V]{err: errComputing}, maxWait
	if x := s.values[key]; x != nil {
		x.requestedAt = s.now()
		if maxWait != noOldValue {
			previous, limit = *x, maxPageWait
		}
		if s.now().Sub(x.startedAt) <= s.maxAge(x.duration) {
			s.mu.Unlock()
			return x.value, false, x.err
		}
	}
	flight := s.startFlight(key, false) //nolint:contextcheck // the computation belongs to the worker, not to the page
	s.mu.Unlock()
	if flight == nil {
		return previous.value, true, previous.err
	}
	var timeout <-chan time.Time
	if limit > 0 {
		timeout = time.After(limit)
	}
	select {
	case r := <-flight:
		if x, ok := r.Val.(cachedValue[V]); ok {
			return x.value, false, x.err
		}
	case <-timeout:
	case <-ctx.Done():
		return previous.value, true, ctx.Err()
	}
	return previous.value, true, previous.err
}

// startFlight starts the computation of a key, or joins the pending computation of the key. The channel receives a
// cachedValue, or no value if the worker ended first. The channel is nil if maxShared computations are pending. pin
// makes the value pinned. The caller holds the lock.
func (s *sharedCache[K, V]) startFlight(key K, pin bool) <-chan singleflight.Result {
	if s.pendingCount >= maxShared {
		return nil
	}
	workerCtx := s.workerContext
	return s.flights.DoChan(flightName(key), func() (any, error) {
		s.addPending(1)
		defer s.addPending(-1)
		select {
		case s.semaphore <- struct{}{}:
			defer func() { <-s.semaphore }()
		case <-workerCtx.Done():
			return nil, workerCtx.Err()
		}
		return s.renew(workerCtx, key, pin), nil
	})
}

// addPending adds to the number of pending flights.
func (s *sharedCache[K, V]) addPending(flights int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pendingCount += flights
}

func flightName[K comparable](key K) string { return fmt.Sprintf("%#v", key) }

// renew computes and stores the value of a key. If clear was called meanwhile, renew discards the value. If expire was
// called meanwhile, renew stores the value as an old value.
func (s *sharedCache[K, V]) renew(ctx context.Context, key K, pin bool) cachedValue[V] {
	x := cachedValue[V]{startedAt: s.now(), pinned: pin}
	s.mu.Lock()
	clears, expires := s.clearCount, s.expireCount
	s.mu.Unlock()
	x.value, x.err = s.computeSafely(ctx, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clearCount != clears { // the value may contain erased data
		return cachedValue[V]{err: errComputing}
	}
	x.duration, x.requestedAt = s.now().Sub(x.startedAt), s.now()
	if s.expireCount != expires {
		x.startedAt = time.Time{}
	}
	if previous := s.values[key]; previous != nil {
		x.requestedAt, x.pinned = previous.requestedAt, previous.pinned || pin
	} else {
		s.evict()
	}
	s.values[key] = &x
	return x
}

// computeSafely calls compute, and returns a panic of compute as an error, because a panic within singleflight ends the
// process.
func (s *sharedCache[K, V]) computeSafely(ctx context.Context, key K) (v V, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the computation panicked: %s", redact.SafePanicText(r))
		}
	}()
	return s.compute(ctx, key)
}

// evict makes room for one value. While the map is full, evict removes the least recently requested value that is not
// pinned. The caller holds the lock.
func (s *sharedCache[K, V]) evict() {
	for len(s.values) >= maxShared {
		var oldest K
		var found *cachedValue[V]
		for key, x := range s.values {
			if !x.pinned && (found == nil || x.requestedAt.Before(found.requestedAt)) {
				oldest, found = key, x
			}
		}
		if found == nil {
			return
		}
		delete(s.values, oldest)
	}
}

// clear removes all values, because data was erased. Pending computations discard their values, which may contain
// erased data.
func (s *sharedCache[K, V]) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clearCount++
	clear(s.values)
}

// expire makes all values old, because data was erased. Pages show an old value until the value is computed again. The
// next request of a page starts this computation. The worker starts the computation only in a cache whose renewAfter is
// not 0. expire removes values that are not pinned and that no page asked for in the last minute.
func (s *sharedCache[K, V]) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expireCount++
	for key, x := range s.values {
		x.startedAt = time.Time{}
		if !x.pinned && s.now().Sub(x.requestedAt) > time.Minute {
			delete(s.values, key)
		}
	}
}

// run is the worker of the cache. run starts the computation of pinnedKey, and calls renewOld every renewEvery until
// ctx ends. run returns after the running computation has ended.
func (s *sharedCache[K, V]) run(ctx context.Context, pinnedKey K) error {
	s.mu.Lock()
	s.workerContext = ctx
	s.startFlight(pinnedKey, true) //nolint:contextcheck // the life of the worker is ctx
	s.mu.Unlock()
	round := time.NewTicker(renewEvery)
	defer round.Stop()
	for {
		select {
		case <-ctx.Done():
			s.mu.Lock()
			s.workerContext = nil
			s.mu.Unlock()
			s.semaphore <- struct{}{} // wait for the running computation; waiting computations end with ctx
			<-s.semaphore
			return nil
		case <-round.C:
			s.renewOld() //nolint:contextcheck // the life of the worker is ctx
		}
	}
}

// renewOld removes each value that no page requested for the time removeAfter. For each other value that is older than
// renewAfter allows, renewOld starts a computation, unless no page requested the value for the time maxIdle. Pinned
// values need no request.
func (s *sharedCache[K, V]) renewOld() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for key, x := range s.values {
		if s.removeAfter > 0 && now.Sub(x.requestedAt) > s.removeAfter {
			delete(s.values, key)
			continue
		}
		age := s.renewAfter(x.duration)
		if age > 0 && now.Sub(x.startedAt) > age && (x.pinned || now.Sub(x.requestedAt) <= maxIdle) {
			s.startFlight(key, x.pinned)
		}
	}
}
