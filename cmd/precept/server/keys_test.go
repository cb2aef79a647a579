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

// A new replica that starts a moment after the loss must find the old keys.
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
			t.Errorf("stored keys 3 seconds after the loss: got %v, want the old salt and the old secret", store)
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
			t.Errorf("got %d warnings about the eviction policy, want 1:\n%s", n, output.String())
		}
	})
}

// A lasting difference is reported once. If a corrected clock becomes wrong again, the difference is reported again.
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
			t.Errorf("got log:\n%s\nwant one warning about each wrong clock", text)
		}
	})
}
