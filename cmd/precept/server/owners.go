package server

import (
	"context"
	"time"

	"precept/internal/redact"
)

// ownerRest is how long an owner rests after a panic.
const ownerRest = time.Second

// outlive runs an owner until its context ends. Owners guard their steps by themselves; what panics
// between them ends no program that agents depend on: the owner begins anew.
func (s *Server) outlive(ctx context.Context, owner func(context.Context) error) error {
	for {
		err, panicked := s.attempt(ctx, owner)
		if !panicked || ctx.Err() != nil {
			return err
		}
		_ = Pause(ctx, ownerRest) // it ends with ctx
	}
}

// attempt runs an owner once, and says whether it panicked.
func (s *Server) attempt(ctx context.Context, owner func(context.Context) error) (err error, panicked bool) { //nolint:revive // the error is the owner's
	defer func() {
		if v := recover(); v != nil {
			s.log.Error("an owner panicked, and begins anew", "panic", redact.PanicKind(v))
			err, panicked = nil, true
		}
	}()
	return owner(ctx), false
}
