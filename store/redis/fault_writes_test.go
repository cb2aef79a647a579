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

// The test repeats each write with a fault at each of its commands, and then makes the write again.
func TestFaultAtEachWriteCommand(t *testing.T) {
	open, proxy := openFaulty(t)
	for n, call := range changeCalls() {
		want := ""
		for injected, wantErr := range faults() {
			for at := -1; ; at++ { // -1 means no fault
				s := open(fmt.Sprint("c", n, injected[:10], at+1))
				for _, earlier := range changeCalls()[:n] {
					if _, err := earlier.do(t.Context(), s); err != nil {
						t.Fatalf("call %s: %v", earlier.name, err)
					}
				}
				proxy.setFault(at, injected)
				_, err := call.do(t.Context(), s)
				_, happened := proxy.commands()
				proxy.setFault(-1, "")
				if (err != nil) != happened || happened && (!errors.Is(err, wantErr) || !errors.Is(err, session.ErrUnavailable)) {
					t.Errorf("%s, %s at command %d: fault injected = %v, error = %v, want error %v", call.name, injected, at, happened, err, wantErr)
				}
				if at >= 0 && !happened { // the call sends fewer commands
					if at == 0 {
						t.Errorf("commands that %s sent: got none, want at least one", call.name)
					}
					break
				}
				if _, err := call.do(t.Context(), s); happened && err != nil {
					t.Errorf("repeated %s after %s at command %d: got error %v, want none", call.name, injected, at, err)
				}
				got := readAllData(t, s)
				if want == "" {
					want = got
				}
				if got != want {
					t.Errorf("%s, %s at command %d: data differs from a run without a fault: %s", call.name, injected, at, diffLines(got, want))
				}
				_ = s.Close()
			}
		}
	}
}

// The test repeats the migration from one shard to several, and breaks the connection at another command each time.
func TestFaultAtEachCommandOfAMigration(t *testing.T) {
	server := storetest.StartRedis(t)
	proxy := newFaultProxy(t, server.Addr)
	t.Cleanup(proxy.close)
	makeCalls := func(s *redis.Store, list []storeCall) {
		t.Helper()
		for _, call := range list {
			if _, err := call.do(t.Context(), s); err != nil {
				t.Fatalf("call %s: %v", call.name, err)
			}
		}
	}
	const before, after = 7, addingCallCount // how many of the calls are made before the first migration, and before the second one
	unmigrated := openWithShards(t, server.URL()+"?prefix=unmigrated", 4)
	makeCalls(unmigrated, changeCalls()[:after])
	want := readDataWithoutPosition(t, unmigrated)
	var seconds atomic.Int64
	now := func() time.Time { return time.Unix(1_900_000_000+10*seconds.Add(1), 0) } // the moving clock keeps the circuit breaker closed
	for n, injected := range []fault{cutAfter, cutBefore} {
		for at := 0; ; at += 1 + 4*n { // for cutBefore, test only every fifth command
			s, err := redis.Open(redis.Options{URL: fmt.Sprintf("%s?prefix=m%d-%d", proxy.url(), n, at), Now: now, Shards: 1})
			if err != nil {
				t.Fatal(err)
			}
			makeCalls(s, changeCalls()[:before])
			proxy.setFault(at, injected)
			_, err = s.Migrate(t.Context(), redis.MigrateOptions{Owner: "one", Shards: 4})
			_, happened := proxy.commands()
			proxy.setFault(-1, "")
			if err != nil && !errors.Is(err, session.ErrUnavailable) || err != nil && !happened {
				t.Errorf("%s at command %d: fault injected = %v, error = %v", injected, at, happened, err)
			}
			expireFreezes(t, server, fmt.Sprintf("m%d-%d", n, at))
			makeCalls(s, changeCalls()[before:after])
			if _, err := s.Migrate(t.Context(), redis.MigrateOptions{Owner: "one", Shards: 4}); err != nil {
				t.Errorf("repeated migration after %s at command %d: got error %v, want none", injected, at, err)
			}
			if got := readDataWithoutPosition(t, s); got != want {
				t.Errorf("%s at command %d: data differs from a store created with shards:%s", injected, at, diffLines(got, want))
			}
			for _, key := range listKeys(t, server, fmt.Sprintf("m%d-%d:*", n, at)) {
				if strings.Contains(key, "moving") {
					t.Errorf("%s at command %d: the migration left the key %s, want it deleted", injected, at, key)
				}
			}
			_ = s.Close()
			if !happened {
				break
			}
		}
	}
}

// expireFreezes deletes the keys with which an interrupted migration still stops all writes, as if these keys had
// expired.
func expireFreezes(t *testing.T, server *storetest.Redis, prefix string) {
	t.Helper()
	for _, key := range listKeys(t, server, prefix+":*frozen") {
		if ttl, _ := server.MustDo(t, "PTTL", key).(int64); ttl > 0 {
			server.MustDo(t, "DEL", key)
		}
	}
}
