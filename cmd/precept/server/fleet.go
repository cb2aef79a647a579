package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"precept/configs"
	"precept/internal/file"
	"precept/internal/label"
	"precept/store/redis"
)

const (
	reachLimit = time.Second      // what a start, or a verb, waits for Redis
	reachEvery = time.Second      // how often a server that started without it asks again
	agreeEvery = 15 * time.Second // how often it looks whether the fleet's keys are still the same
	fleetFile  = "fleet.json"
)

// metaKeeper keeps a value under a name, unless one stands there, and gives the one that stands.
type metaKeeper interface {
	InitMeta(ctx context.Context, key string, value []byte) ([]byte, error)
}

// fleetKeys are made once and shared by all replicas on one store: with another salt a session's
// coins would fall otherwise, with another secret a client's key would be another tenant. A copy
// lies in the data directory, for a start while the store is away.
type fleetKeys struct {
	Store  string `json:"store"` // hash of the address: keys of one store are never taken to another
	Salt   string `json:"salt"`
	Secret string `json:"tenant_secret"`
}

// fleet agrees with the other replicas on the keys.
type fleet struct {
	be    metaKeeper
	path  string // of the copy; "" where none can be kept
	keys  fleetKeys
	known bool // keys are the fleet's
}

// openRedis makes the store of a fleet and asks, once and briefly, whether it is there. A fleet's
// replica starts without it.
func (p *parts) openRedis(ctx context.Context, cfg *configs.Config) (Backend, error) {
	db, err := redis.Open(redis.Options{
		URL: cfg.StoreURL(), Now: p.Now, MaxFeedback: cfg.Limits.Feedback,
	})
	if err != nil {
		return nil, fmt.Errorf("store.url: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	if err := db.Ping(ctx); err != nil {
		p.absent = true
		p.metrics.FailedOpen(label.StepStore)
		p.log.Error(
			"the store cannot be used; precept starts without it and goes on asking", "error", err,
		)
		p.quiet.allow(label.StepStore) // it is told of here
	}
	return db, nil
}

// shared is the backend in the role T where replicas share it, nil where it is this process' own.
func shared[T any](backend any) (role T) {
	if db, ok := backend.(*redis.Store); ok {
		role, _ = any(db).(T)
	}
	return role
}

// agree finds the keys: the store's, else those of the copy, else none that may be relied on.
func (p *parts) agree(ctx context.Context, cfg *configs.Config, be metaKeeper) (*fleet, error) {
	f := &fleet{be: be, path: filepath.Join(cfg.DataDir, fleetFile)}
	sum := sha256.Sum256([]byte(cfg.StoreURL()))
	place := hex.EncodeToString(sum[:8])
	copied, err := readFleetFile(f.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.log.Warn("the copy of the fleet's keys cannot be read", "error", err)
	}
	if f.keys = copied; copied.Store != place {
		f.keys = fleetKeys{Store: place}
		for _, k := range []*string{&f.keys.Salt, &f.keys.Secret} {
			if *k, err = p.freshKey(); err != nil {
				return nil, err
			}
		}
	}
	f.known = copied.Store == place
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	if _, err := f.ask(ctx); err != nil {
		if !f.known {
			p.log.Warn(
				"the fleet's salt is not known yet; until the store can be reached, new sessions are no part of the experiment and get no lessons (set bandit.salt to do without it)",
				"error", err,
			)
		}
		return f, nil //nolint:nilerr // it is asked again; starting must not depend on it
	}
	f.keep(p)
	return f, nil
}

// ask puts the keys into the store, unless others stand there, and takes those that stand. It says
// whether they are new here.
func (f *fleet) ask(ctx context.Context) (changed bool, err error) {
	next := f.keys
	for name, k := range map[string]*string{"salt": &next.Salt, "tenant-secret": &next.Secret} {
		stands, err := f.be.InitMeta(ctx, name, []byte(*k))
		if err != nil {
			return false, err
		}
		*k = string(stands)
	}
	changed = !f.known || next != f.keys
	f.keys, f.known = next, true
	return changed, nil
}

// follow asks until the store answers, and then looks now and then whether the keys are still the
// same: a store that lost its data may have got new ones from a replica that was faster.
func (f *fleet) follow(p *parts) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		for {
			wait := agreeEvery
			if !f.known {
				wait = reachEvery
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(wait):
			}
			changed, err := f.ask(ctx)
			if err != nil || !changed {
				continue // the recorder tells of a store that is away
			}
			f.keep(p)
			if err := p.proxy.Rekey(f.keys.Salt, []byte(f.keys.Secret)); err != nil {
				return err
			}
			p.log.Info("the fleet's keys are known and in force")
		}
	}
}

// keep writes the copy. Without it the next start needs the store; that is worth a line, not a
// stop.
func (f *fleet) keep(p *parts) {
	b, err := json.Marshal(f.keys) //nolint:gosec // the file is for this program alone
	if err == nil {
		if old, e := os.ReadFile(f.path); e == nil && bytes.Equal(old, b) {
			return
		}
		err = file.Write(f.path, 0o600, b)
	}
	if err != nil {
		p.log.Warn(
			"no copy of the fleet's keys can be kept; the next start needs the store", "error", err,
		)
	}
}

func readFleetFile(path string) (k fleetKeys, err error) {
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &k)
	}
	if err != nil || k.Salt == "" || k.Secret == "" {
		return fleetKeys{}, err
	}
	return k, nil
}
