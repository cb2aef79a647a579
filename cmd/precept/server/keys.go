package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"precept/configs"
	"precept/internal/file"
	"precept/proxy"
)

const (
	reachLimit = time.Second      // maximum time that a start or a command waits for Redis
	reachEvery = time.Second      // interval at which a server without confirmed keys asks Redis for the keys
	agreeEvery = 15 * time.Second // interval at which a server compares its keys with the keys in Redis
	fleetFile  = "fleet.json"     // name of the file in the data directory with the copy of the keys
	saltName   = "salt"           // name of the salt in a metaStore
)

// metaStore is a store of named values. InitMeta stores a value if the name has no value yet, and returns the stored
// value.
type metaStore interface {
	InitMeta(ctx context.Context, key string, value []byte) ([]byte, error)
}

// keyPair holds the salt of the coins and the secret of tenant names. A coin is a random decision to inject or to
// withhold a lesson. All replicas on one store share the pair. With a different salt, a session would get different
// coins. With a different secret, a client's key would belong to a different tenant. A start without Redis uses the
// copy in the data directory.
type keyPair struct {
	Store  string `json:"store"` // hash of the store's address, because a copy is valid for one store only
	Salt   string `json:"salt"`
	Secret string `json:"tenant_secret"`
}

// keys holds the key pair of a server. If the store is in Redis, all replicas use the pair in Redis.
type keys struct {
	pair keyPair
	// confirmed is false for a new pair that Redis has not confirmed yet. confirmed is true for a copy of the pair in
	// Redis, and for a store that replicas do not share.
	confirmed bool

	fleet bool   // replicas share the keys, and the worker of follow checks them
	path  string // path of the copy in the data directory
	store metaStore
}

// openKeys reads the keys from the backend, or creates them. A backend in memory stores no keys, so the keys are lost
// when the server stops.
func openKeys(ctx context.Context, tools Tools, cfg *configs.Config, backend Backend, log *slog.Logger) (*keys, error) {
	store, durable := backend.(metaStore)
	if durable && IsRedis(cfg.StoreURL()) {
		return agreeOnKeys(ctx, tools, cfg, store, log)
	}
	k := &keys{confirmed: true}
	for name, value := range map[string]*string{saltName: &k.pair.Salt, "tenant-secret": &k.pair.Secret} {
		key, err := tools.freshKey()
		if err != nil {
			return nil, err
		}
		*value = key
		if !durable {
			continue
		}
		stored, err := store.InitMeta(ctx, name, []byte(key))
		if err != nil {
			return nil, fmt.Errorf("store the %s: %w", name, err)
		}
		*value = string(stored)
	}
	return k, nil
}

// freshKey returns 16 random bytes in hexadecimal.
func (t *Tools) freshKey() (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(t.Random, b[:]); err != nil {
		return "", fmt.Errorf("make a key: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

// agreeOnKeys returns the keys of the fleet: the pair in Redis, else the copy in the data directory, else a new pair
// that other replicas do not know yet.
func agreeOnKeys(ctx context.Context, tools Tools, cfg *configs.Config, store metaStore, log *slog.Logger) (*keys, error) {
	k := &keys{fleet: true, store: store, path: filepath.Join(cfg.DataDir, fleetFile)}
	sum := sha256.Sum256([]byte(cfg.StoreURL()))
	address := hex.EncodeToString(sum[:8])
	copied, err := readKeyCopy(k.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("the copy of the fleet's keys cannot be read", "error", err)
	}
	k.pair = copied
	if copied.Store != address {
		k.pair = keyPair{Store: address}
		for _, value := range []*string{&k.pair.Salt, &k.pair.Secret} {
			if *value, err = tools.freshKey(); err != nil {
				return nil, err
			}
		}
	}
	k.confirmed = copied.Store == address
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	if _, err := k.agree(ctx); err != nil {
		if !k.confirmed {
			log.Warn(
				"the salt of the fleet is unknown until Redis answers; new sessions get no lessons and are outside of the experiment (bandit.salt sets a salt without Redis)",
				"error", err,
			)
		}
		return k, nil //nolint:nilerr // the worker of follow tries again, because a start must not depend on Redis
	}
	k.writeCopy(log)
	return k, nil
}

// agree stores the pair in Redis if Redis has none, and then adopts the stored pair. changed reports whether the
// adopted pair is newly confirmed or differs from the previous pair.
func (k *keys) agree(ctx context.Context) (changed bool, err error) {
	next := k.pair
	for name, value := range map[string]*string{saltName: &next.Salt, "tenant-secret": &next.Secret} {
		stored, err := k.store.InitMeta(ctx, name, []byte(*value))
		if err != nil {
			return false, err
		}
		*value = string(stored)
	}
	changed = !k.confirmed || next != k.pair
	k.pair, k.confirmed = next, true
	return changed, nil
}

// follow returns a worker that calls agree until Redis answers, and then every agreeEvery. A Redis that lost its data
// may have new keys from another replica.
func (k *keys) follow(p *proxy.Proxy, log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		for {
			wait := agreeEvery
			if !k.confirmed {
				wait = reachEvery
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(wait):
			}
			changed, err := k.agree(ctx)
			if err != nil || !changed {
				continue // the writer of the store reports an unreachable Redis
			}
			k.writeCopy(log)
			if err := p.Rekey(k.pair.Salt, []byte(k.pair.Secret)); err != nil {
				return err
			}
			log.Info("the keys of the fleet are known and used")
		}
	}
}

// writeCopy writes the copy of the keys. If the copy cannot be written, the next start needs Redis:
// writeCopy logs a warning, and the program continues.
func (k *keys) writeCopy(log *slog.Logger) {
	b, err := json.Marshal(k.pair) //nolint:gosec // the file is for this program alone
	if err == nil {
		if old, e := os.ReadFile(k.path); e == nil && bytes.Equal(old, b) {
			return
		}
		err = file.Write(k.path, 0o600, b)
	}
	if err != nil {
		log.Warn("the copy of the fleet's keys cannot be written; the next start needs Redis", "error", err)
	}
}

// readKeyCopy reads the copy of the keys. A copy without a salt or a secret is a zero pair.
func readKeyCopy(path string) (k keyPair, err error) {
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &k)
	}
	if err != nil || k.Salt == "" || k.Secret == "" {
		return keyPair{}, err
	}
	return k, nil
}
