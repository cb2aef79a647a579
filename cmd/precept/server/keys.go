package server

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"

	"precept/configs"
)

// keys are random values that are made once and kept with the store, so that restarts and replicas
// share them. known is false while a fleet's cannot be learned.
func (p *parts) keys(
	ctx context.Context, cfg *configs.Config, backend Backend,
) (keys fleetKeys, known bool, err error) {
	keeper, keeps := backend.(metaKeeper)
	if keeps && IsRedis(cfg.StoreURL()) {
		f, err := p.agree(ctx, cfg, keeper)
		if err != nil {
			return keys, false, err
		}
		p.owners = append(p.owners, f.follow(p))
		return f.keys, f.known, nil
	}
	if keys.Salt, err = p.secret(ctx, keeper, "salt"); err == nil {
		keys.Secret, err = p.secret(ctx, keeper, "tenant-secret")
	}
	return keys, true, err
}

// freshKey makes a random value.
func (p *parts) freshKey() (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(p.Random, b[:]); err != nil {
		return "", fmt.Errorf("make a key: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

// secret is a random value that is kept in the store; where there is none, it holds until the stop.
func (p *parts) secret(ctx context.Context, keeper metaKeeper, name string) (string, error) {
	fresh, err := p.freshKey()
	if err != nil || keeper == nil {
		return fresh, err
	}
	kept, err := keeper.InitMeta(ctx, name, []byte(fresh))
	if err != nil {
		return "", fmt.Errorf("keep the %s: %w", name, err)
	}
	return string(kept), nil
}
