package server

import (
	"context"
	"log/slog"
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
