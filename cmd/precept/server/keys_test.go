package server

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// valueStore is a metaStore in memory.
type valueStore map[string]string

func (v valueStore) InitMeta(_ context.Context, key string, value []byte) ([]byte, error) {
	if _, ok := v[key]; !ok {
		v[key] = string(value)
	}
	return []byte(v[key]), nil
}

// If the store loses its data, a replica writes its keys to the store again within seconds. Otherwise, a replica that
// starts after the loss would create new keys.
func TestEmptiedStoreGetsKeysAgainWithinSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := valueStore{}
		k := &keys{pair: keyPair{Salt: "old salt", Secret: "old secret"}, isConfirmed: true, store: store}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- k.follow(nil, slog.New(slog.DiscardHandler))(ctx) }()
		time.Sleep(3 * time.Second)
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if store["salt"] != "old salt" || store["tenant-secret"] != "old secret" {
			t.Errorf("keys in the store 3 seconds after the loss: got %v, want the old salt and the old secret", store)
		}
	})
}

func TestChangedEvictionPolicyIsReportedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var output bytes.Buffer
		var isLRU atomic.Bool
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			policy := func(context.Context) string {
				if isLRU.Load() {
					return "allkeys-lru"
				}
				return ""
			}
			done <- warnEviction(policy, slog.New(slog.NewTextHandler(&output, nil)))(ctx)
		}()
		synctest.Wait()
		isLRU.Store(true)
		time.Sleep(5 * checkInterval)
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(output.String(), "maxmemory_policy=allkeys-lru"); n != 1 {
			t.Errorf("warnings about the eviction policy: got %d, want 1; log:\n%s", n, output.String())
		}
	})
}

// warnClock reports a lasting difference once. If the clock was corrected and then becomes wrong again, warnClock
// reports the difference again.
func TestClockDifferenceIsReportedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var output bytes.Buffer
		var ahead atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			difference := func(context.Context) time.Duration { return time.Duration(ahead.Load()) }
			done <- warnClock(difference, slog.New(slog.NewTextHandler(&output, nil)))(ctx)
		}()
		for _, d := range []time.Duration{0, -24 * time.Hour, 0, 24 * time.Hour} {
			ahead.Store(int64(d))
			time.Sleep(5 * checkInterval)
		}
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if text := output.String(); strings.Count(text, "\n") != 2 || strings.Count(text, "ahead=-24h0m0s") != 1 || strings.Count(text, "ahead=24h0m0s") != 1 {
			t.Errorf("log after the clock was wrong twice: got\n%s\nwant two warnings, one about each difference", text)
		}
	})
}
