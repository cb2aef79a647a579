package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
)

// listenTCP is how ports are opened where nobody says otherwise.
func listenTCP(ctx context.Context, key, address string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; free the address or choose another one", key, err)
	}
	return l, nil
}

// closeQuietly closes a listener that its server may have closed already.
func closeQuietly(l net.Listener) { _ = l.Close() }

func (s *Server) httpServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: s.cfg.Limits.HeaderTimeout,
		IdleTimeout:       idleConn,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // broken clients are everyday, and theirs
	}
}

// serveOn serves until the server is closed.
func serveOn(server *http.Server, l net.Listener) error {
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	}
	return nil
}
