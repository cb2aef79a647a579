package server

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
)

// announce says, once, where precept is: to people and to programs.
func (s *Server) announce(ctx context.Context, data, adminURL string) {
	debug.FreeOSMemory() // starting reads and compiles a lot that is not needed again
	if s.first {
		fmt.Fprintf(
			s.options.Console, "agents: OPENAI_BASE_URL=%s/v1 or ANTHROPIC_BASE_URL=%s\n", data,
			data,
		)
	}
	if s.options.Ready == nil {
		s.log.always(ctx, "precept ready", "data", data, "admin", adminURL)
	}
	if !s.options.Within {
		if err := WriteRunFile(s.cfg.DataDir, RunFile{PID: os.Getpid(), Data: data, Admin: adminURL}); err != nil {
			s.log.Warn("run.json cannot be written", "error", err)
		}
		s.notify(ctx, "READY=1\nSTATUS=data "+data+", admin "+adminURL)
	}
	if s.options.Ready != nil {
		s.options.Ready(data, adminURL)
	}
}

// notify keeps the service manager informed, where there is one; precept does without it.
func (s *Server) notify(ctx context.Context, state string) {
	if s.options.Notify == nil {
		return
	}
	if err := s.options.Notify(ctx, state); err != nil {
		s.log.Warn("the service manager was not told", "error", err)
	}
}
