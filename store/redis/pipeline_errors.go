package redis

import (
	"context"
	"net"
	"slices"

	goredis "github.com/redis/go-redis/v9"
)

// pipelineErrors sets the error of a pipeline that was not sent as the error of each command. If a new connection is
// refused by the server (a wrong password, a deleted user), go-redis returns the refusal as the error of the pipeline
// and leaves the commands without an error, so the commands look as if they had succeeded.
type pipelineErrors struct{}

func (pipelineErrors) DialHook(next goredis.DialHook) goredis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (pipelineErrors) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error { return next(ctx, cmd) }
}

func (pipelineErrors) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		err := next(ctx, cmds)
		if err != nil && !slices.ContainsFunc(cmds, func(c goredis.Cmder) bool { return c.Err() != nil }) {
			for _, c := range cmds {
				c.SetErr(err)
			}
		}
		return err
	}
}
