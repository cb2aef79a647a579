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
	"precept/store/redis"
)

const (
	redisTimeout  = time.Second  // maximum time to wait for Redis at startup or in a command
	agreeInterval = time.Second  // pause between comparisons with the keys in Redis
	keyCopyFile   = "fleet.json" // copy of the keys in the data directory
	saltName      = "salt"
)

// metaStore stores named values.
type metaStore interface {
	// InitMeta stores value for key if no value is stored, and returns the stored value.
	InitMeta(ctx context.Context, key string, value []byte) ([]byte, error)
}

// keyPair holds two secrets that all replicas on one store share: the salt for the random assignments, and the secret
// that turns an API key into a tenant name. With different keys, a session would get a different assignment or tenant
// at each replica.
//
// If Redis is unavailable at startup, the server uses the copy in the data directory.
type keyPair struct {
	StoreHash string `json:"store"` // hash of the store address; a copy is valid only for this store
	Salt      string `json:"salt"`
	Secret    string `json:"tenant_secret"`
}

// keys holds a server's key pair, and keeps it equal to the pair in Redis.
type keys struct {
	pair keyPair
	// isConfirmed is false for a new pair that Redis has not confirmed yet.
	isConfirmed bool

	isFleet bool // replicas share the keys
	path    string
	store   metaStore
}

// openKeys reads or creates the keys.
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

func (t *Tools) newKey() (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(t.Random, b[:]); err != nil {
		return "", fmt.Errorf("generate a key: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

// agreeOnKeys returns the pair in Redis. If Redis has none, it first stores the copy or a new pair. If Redis does not
// answer, it returns the copy, or a new pair that is not confirmed.
func agreeOnKeys(ctx context.Context, tools Tools, cfg *configs.Config, store metaStore, log *slog.Logger) (*keys, error) {
	k := &keys{isFleet: true, store: store, path: filepath.Join(cfg.DataDir, keyCopyFile)}
	name, err := redis.DataName(cfg.StoreURL())
	if err != nil {
		return nil, fmt.Errorf("store.url: %w", err)
	}
	sum := sha256.Sum256([]byte(name))
	address := hex.EncodeToString(sum[:8])
	copied, err := readKeyCopy(k.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("the copy of the fleet's keys cannot be read; until Redis answers, new sessions get no lessons", "error", err)
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
				"the fleet's salt is unknown until Redis answers; new sessions get no lessons and are outside the experiment; start Redis, or set bandit.salt",
				"error", err,
			)
		}
		return k, nil //nolint:nilerr // startup must not depend on Redis; the worker that follow returns tries again
	}
	k.writeCopy(log)
	return k, nil
}

// agree stores the pair in Redis if Redis has none, and then adopts the stored pair. changed reports whether the pair
// is newly confirmed or different.
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

// follow returns a worker that calls agree every agreeInterval. If Redis has lost the keys, the worker stores them
// again, or adopts the keys that a new replica has stored.
func (k *keys) follow(p *proxy.Proxy, log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(agreeInterval):
			}
			changed, err := k.agree(ctx)
			if err != nil || !changed {
				continue // the store's writer logs the error
			}
			k.writeCopy(log)
			if err := p.Rekey(k.pair.Salt, []byte(k.pair.Secret)); err != nil {
				return err
			}
			log.Info("the fleet's keys were read from Redis and are now in use")
		}
	}
}

// writeCopy writes a copy of the keys. A failure is only logged. The next startup then needs Redis.
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

// readKeyCopy reads the copied keys. For an incomplete copy, it returns the zero pair.
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
