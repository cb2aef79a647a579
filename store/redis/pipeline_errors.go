package redis

import (
	"context"
	"net"
	"slices"

	goredis "github.com/redis/go-redis/v9"
)

// pipelineErrors is a hook that copies a pipeline's error to the pipeline's commands. If the server refuses a
// connection, go-redis returns the error only for the pipeline, so the commands would look successful.
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
