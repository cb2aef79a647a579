//go:build !race

package redis_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"precept/internal/session"
	"precept/store/redis"
	"precept/store/storetest"
)

// The connection breaks at each command of each write, before Redis has the command or after Redis
// executed the command, or Redis refuses the command. The write then returns ErrUnavailable, and
// its repetition gives the result of a write without a fault.
func TestFaultAtEachCommandOfAWrite(t *testing.T) {
	open, b := openFaulty(t)
	for n, d := range changes() {
		want := ""
		for injected, wantErr := range faults() {
			for at := -1; ; at++ {
				s := open(fmt.Sprint("c", n, injected[:10], at+1))
				for _, earlier := range changes()[:n] {
					if _, err := earlier.do(t.Context(), s); err != nil {
						t.Fatalf("%s: %v", earlier.name, err)
					}
				}
				b.next(at, injected)
				_, err := d.do(t.Context(), s)
				_, happened := b.commands()
				b.next(-1, "")
				if (err != nil) != happened || happened && (!errors.Is(err, wantErr) || !errors.Is(err, session.ErrUnavailable)) {
					t.Errorf("%s, %s command %d: fault happened = %v, got error %v, want an error that is %v and ErrUnavailable if the fault happened, else none", d.name, injected, at, happened, err, wantErr)
				}
				if at >= 0 && !happened { // the call has no further commands
					if at == 0 {
						t.Errorf("%s: the call sent no command, want a command for fault %s", d.name, injected)
					}
					break
				}
				if _, err := d.do(t.Context(), s); happened && err != nil {
					t.Errorf("repeated %s after %s command %d: %v", d.name, injected, at, err)
				}
				got := dataOf(t, s)
				if want == "" {
					want = got
				}
				if got != want {
					t.Errorf("%s, %s command %d: the data differs, want equal data: %s", d.name, injected, at, diffLines(got, want))
				}
				_ = s.Close()
			}
		}
	}
}

// The connection of a migration breaks at a command, before or after Redis executed the command. After further writes
// and a repeated migration, the data equals the data of a store that was created with several shards.
func TestFaultAtEachCommandOfAMigration(t *testing.T) {
	server := storetest.StartRedis(t)
	b := newFaultProxy(t, server.Addr)
	t.Cleanup(b.close)
	do := func(s *redis.Store, list []storeCall) {
		t.Helper()
		for _, d := range list {
			if _, err := d.do(t.Context(), s); err != nil {
				t.Fatalf("%s: %v", d.name, err)
			}
		}
	}
	const before, after = 7, 13
	fresh := openWithShards(t, server.URL()+"?prefix=fresh", 4)
	do(fresh, changes()[:after])
	want := dataWithoutPosition(t, fresh)
	var seconds atomic.Int64
	now := func() time.Time { return time.Unix(1_900_000_000+10*seconds.Add(1), 0) } // the breaker never opens
	for n, injected := range []fault{cutBehind, cutBefore} {
		for at := 0; ; at += 1 + 4*n {
			s, err := redis.Open(redis.Options{URL: fmt.Sprintf("%s?prefix=m%d-%d", b.url(), n, at), Now: now, Shards: 1})
			if err != nil {
				t.Fatal(err)
			}
			do(s, changes()[:before])
			b.next(at, injected)
			_, err = s.Migrate(t.Context(), redis.Migration{Owner: "one", Shards: 4})
			_, happened := b.commands()
			b.next(-1, "")
			if err != nil && !errors.Is(err, session.ErrUnavailable) || err != nil && !happened {
				t.Errorf("%s command %d: err = %v, want none, or ErrUnavailable if the fault happened", injected, at, err)
			}
			thaw(t, server, fmt.Sprintf("m%d-%d", n, at))
			do(s, changes()[before:after])
			if _, err := s.Migrate(t.Context(), redis.Migration{Owner: "one", Shards: 4}); err != nil {
				t.Errorf("repeated migration after %s command %d: %v", injected, at, err)
			}
			if got := dataWithoutPosition(t, s); got != want {
				t.Errorf("%s command %d: the data differs, want the data of a store that was created with shards:%s", injected, at, diffLines(got, want))
			}
			for _, key := range keysOf(t, server, fmt.Sprintf("m%d-%d:*", n, at)) {
				if strings.Contains(key, "moving") {
					t.Errorf("%s command %d: key %s is left, want it deleted", injected, at, key)
				}
			}
			_ = s.Close()
			if !happened {
				break
			}
		}
	}
}

// thaw deletes the freezes of an interrupted migration, as the server does when they expire.
func thaw(t *testing.T, server *storetest.Redis, prefix string) {
	t.Helper()
	for _, key := range keysOf(t, server, prefix+":*frozen") {
		if ttl, _ := server.Must(t, "PTTL", key).(int64); ttl > 0 {
			server.Must(t, "DEL", key)
		}
	}
}
