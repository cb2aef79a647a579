package admin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"precept/internal/redact"
)

// stock keeps what pages show and what takes long to make: the report of thousands of lessons, a
// walk over the stored sessions. One owner makes it, for all pages that ask; a page waits for it
// only for patience, and is given what was made last then, which says how old it is. While nobody
// runs the owner, whoever asks makes it.
type stock[K comparable, V any] struct {
	now   func() time.Time
	make  func(context.Context, K) (V, error)
	fresh func(took time.Duration) time.Duration // so old, it is as good as new
	warm  func(took time.Duration) time.Duration // so old, what was asked for lately is made anew unasked; 0: never

	running atomic.Bool
	work    chan K

	mu  sync.Mutex
	all map[K]*keeping[V]
}

// keeping is one thing kept.
type keeping[V any] struct {
	value V
	err   error
	there bool      // it was made once
	made  time.Time // when its making began
	took  time.Duration
	asked time.Time
	stays bool          // it is kept warm although nobody asks
	done  chan struct{} // closed when what is being made is there; nil: nothing is
}

const (
	patience  = 100 * time.Millisecond // how long a page waits for what is newer
	keptMost  = 16
	keptRound = 5 * time.Second // how often the owner looks for what is too old
	keptLong  = time.Hour       // what nobody asked for so long is not made anew unasked
)

// errBeingMade is the answer where nothing is there yet, and does not come soon.
var errBeingMade = errors.New("it is being made for the first time")

func newStock[K comparable, V any](now func() time.Time, of func(context.Context, K) (V, error), fresh, warm func(time.Duration) time.Duration) *stock[K, V] {
	return &stock[K, V]{now: now, make: of, fresh: fresh, warm: warm, work: make(chan K, keptMost), all: map[K]*keeping[V]{}}
}

// get gives what is kept under a key, as new as it is to be had soon; old says that something newer
// is being made. first is how long to wait where nothing was made yet; 0: until it is there.
func (k *stock[K, V]) get(ctx context.Context, key K, first time.Duration) (v V, old bool, err error) {
	if !k.running.Load() {
		v, err = k.make(ctx, key)
		return v, false, err
	}
	was, done := k.want(key, false)
	if done == nil {
		return was.value, false, was.err
	}
	var over <-chan time.Time
	if limit := when(was.there, patience, first); limit > 0 {
		over = time.After(limit)
	}
	select {
	case <-done:
	case <-over:
	case <-ctx.Done():
		return was.value, true, ctx.Err()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	x := k.all[key]
	if x == nil || !x.there {
		return was.value, true, errBeingMade
	}
	return x.value, x.done != nil, x.err
}

// want says what is there; a channel with it, when something newer comes.
func (k *stock[K, V]) want(key K, stays bool) (keeping[V], <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	x := k.all[key]
	if x == nil {
		k.makeRoom()
		x = &keeping[V]{}
		k.all[key] = x
	}
	x.asked, x.stays = now, x.stays || stays
	if x.there && now.Sub(x.made) <= k.fresh(x.took) {
		return *x, nil
	}
	k.order(key, x)
	return *x, x.done
}

// order has a thing made, unless it is being made. The owner is at most keptMost behind: who comes
// later than that finds what is there. The lock is held.
func (k *stock[K, V]) order(key K, x *keeping[V]) {
	if x.done != nil {
		return
	}
	select {
	case k.work <- key:
		x.done = make(chan struct{})
	default:
	}
}

// makeRoom lets go what was not asked for the longest; what is being made stays.
func (k *stock[K, V]) makeRoom() {
	for len(k.all) >= keptMost {
		var oldest K
		var found *keeping[V]
		for key, x := range k.all {
			if x.done == nil && !x.stays && (found == nil || x.asked.Before(found.asked)) {
				oldest, found = key, x
			}
		}
		if found == nil {
			return
		}
		delete(k.all, oldest)
	}
}

// run is the owner: it makes what is asked for, one at a time, and begins with what is asked for
// first. It ends with its context.
func (k *stock[K, V]) run(ctx context.Context, first ...K) error {
	k.running.Store(true)
	defer k.stop()
	for _, key := range first {
		k.want(key, true)
	}
	round := time.NewTicker(keptRound)
	defer round.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case key := <-k.work:
			k.renew(ctx, key)
		case <-round.C:
			k.look()
		}
	}
}

// stop lets everybody go who waits.
func (k *stock[K, V]) stop() {
	k.running.Store(false)
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.work) > 0 {
		<-k.work
	}
	for _, x := range k.all {
		if x.done != nil {
			close(x.done)
			x.done = nil
		}
	}
}

// renew makes a thing. A panic is its error.
func (k *stock[K, V]) renew(ctx context.Context, key K) {
	began := k.now()
	v, err := k.attempt(ctx, key)
	k.mu.Lock()
	defer k.mu.Unlock()
	x := k.all[key]
	if x == nil {
		return
	}
	x.value, x.err, x.there, x.made, x.took = v, err, true, began, k.now().Sub(began)
	if x.done != nil {
		close(x.done)
		x.done = nil
	}
}

func (k *stock[K, V]) attempt(ctx context.Context, key K) (v V, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("making it panicked: %s", redact.PanicKind(r))
		}
	}()
	return k.make(ctx, key)
}

// look has made anew what grew old and is asked for.
func (k *stock[K, V]) look() {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	for key, x := range k.all {
		age := k.warm(x.took)
		if age > 0 && now.Sub(x.made) > age && (x.stays || now.Sub(x.asked) <= keptLong) {
			k.order(key, x)
		}
	}
}
