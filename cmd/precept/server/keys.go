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
	redisTimeout    = time.Second      // maximum time that a start or a command waits for Redis
	confirmInterval = time.Second      // interval at which a server without confirmed keys asks Redis for the keys
	compareInterval = 15 * time.Second // interval at which a server compares its keys with the keys in Redis
	keyCopyFile     = "fleet.json"     // name of the file with the copy of the keys, in the data directory
	saltName        = "salt"           // name of the salt in a metaStore
)

// metaStore is a store of named values.
type metaStore interface {
	// InitMeta returns the value of key. If key has no value yet, InitMeta stores value first.
	InitMeta(ctx context.Context, key string, value []byte) ([]byte, error)
}

// keyPair holds the salt of the random assignments and the secret of tenant names. A random assignment is the decision
// to inject or to withhold a lesson. All replicas on one store share the pair. With a different salt, a session would
// get a different assignment. With a different secret, the API key of a client would belong to a different tenant. A
// start without Redis uses the copy of the pair in the data directory.
type keyPair struct {
	StoreHash string `json:"store"` // hash of the store's address; a copy is valid only for this store
	Salt      string `json:"salt"`
	Secret    string `json:"tenant_secret"`
}

// keys holds the key pair of a server. If the store is in Redis, all replicas use the pair in Redis.
type keys struct {
	pair keyPair
	// confirmed is false for a new pair that Redis has not confirmed yet. confirmed is true for a copy of the pair in
	// Redis, and for a store that replicas do not share.
	isConfirmed bool

	isFleet bool   // replicas share the keys, and the worker of follow checks them
	path    string // path of the copy in the data directory
	store   metaStore
}

// openKeys reads the keys from the store, or creates them. If store is nil, the keys are lost when the server stops.
func openKeys(ctx context.Context, tools Tools, cfg *configs.Config, store metaStore, log *slog.Logger) (*keys, error) {
	if store != nil && IsRedis(cfg.StoreURL()) {
		return agreeOnKeys(ctx, tools, cfg, store, log)
	}
	k := &keys{isConfirmed: true}
	for name, value := range map[string]*string{saltName: &k.pair.Salt, "tenant-secret": &k.pair.Secret} {
		key, err := tools.newKey()
		if err != nil {
			return nil, err
		}
		*value = key
		if store == nil {
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

// newKey returns 16 random bytes in hexadecimal.
func (t *Tools) newKey() (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(t.Random, b[:]); err != nil {
		return "", fmt.Errorf("make a key: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

// agreeOnKeys returns the keys of the fleet, which are the pair in Redis. If Redis has no pair yet, agreeOnKeys stores
// the copy in the data directory or, without a copy, a new pair in Redis. If Redis does not answer, agreeOnKeys returns
// the copy or a new pair that is not confirmed.
func agreeOnKeys(ctx context.Context, tools Tools, cfg *configs.Config, store metaStore, log *slog.Logger) (*keys, error) {
	k := &keys{isFleet: true, store: store, path: filepath.Join(cfg.DataDir, keyCopyFile)}
	sum := sha256.Sum256([]byte(cfg.StoreURL()))
	address := hex.EncodeToString(sum[:8])
	copied, err := readKeyCopy(k.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("the copy of the fleet's keys cannot be read", "error", err)
	}
	k.pair = copied
	if copied.StoreHash != address {
		k.pair = keyPair{StoreHash: address}
		for _, value := range []*string{&k.pair.Salt, &k.pair.Secret} {
			if *value, err = tools.newKey(); err != nil {
				return nil, err
			}
		}
	}
	k.isConfirmed = copied.StoreHash == address
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	if _, err := k.agree(ctx); err != nil {
		if !k.isConfirmed {
			log.Warn(
				"the salt of the fleet is unknown until Redis answers; new sessions get no lessons and are outside of the experiment (bandit.salt sets a salt without Redis)",
				"error", err,
			)
		}
		return k, nil //nolint:nilerr // a start must not depend on Redis, so the worker of follow tries again
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
	changed = !k.isConfirmed || next != k.pair
	k.pair, k.isConfirmed = next, true
	return changed, nil
}

// follow returns a worker that calls agree until Redis answers, and then every compareInterval. A Redis that lost its
// data may have new keys from another replica.
func (k *keys) follow(p *proxy.Proxy, log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		for {
			wait := compareInterval
			if !k.isConfirmed {
				wait = confirmInterval
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(wait):
			}
			changed, err := k.agree(ctx)
			if err != nil || !changed {
				continue // if Redis is unreachable, the writer of the store logs the error
			}
			k.writeCopy(log)
			if err := p.Rekey(k.pair.Salt, []byte(k.pair.Secret)); err != nil {
				return err
			}
			log.Info("the keys of the fleet are known and used")
		}
	}
}

// writeCopy writes the copy of the keys. If the copy cannot be written, writeCopy only logs a warning, although the
// next start then needs Redis.
func (k *keys) writeCopy(log *slog.Logger) {
	b, err := json.Marshal(k.pair) //nolint:gosec // only this program may read the file, which contains the secret
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

// readKeyCopy returns the copy of the keys. If the copy has no salt or no secret, the result is the zero pair.
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
