// Package server runs the proxy, the admin server and the background workers. One process can run several servers, each
// with a separate data directory and ports. A server runs once.
//
// The methods on Tools open the store, the lessons and a distiller, for the server and for commands.
package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"precept/admin"
	"precept/bandit/report"
	"precept/configs"
	"precept/inject/rules"
	"precept/internal/session"
	"precept/proxy"
)

// ErrStreamsCut reports that the server stopped before it had sent all replies completely.
var ErrStreamsCut = errors.New("some streams did not end within limits.drain_timeout and were cut")

// CutWait is how long a shutdown waits for handlers after cutting the streams.
const CutWait = 2 * time.Second

const idleConnTimeout = 120 * time.Second

// Tools holds the clock, the random source and the callbacks that main passes to the server and the commands.
type Tools struct {
	Now    func() time.Time
	Random io.Reader // safe for concurrent use
	// OnDamaged, if set, is called for a session skipped because a stored exchange is damaged.
	OnDamaged func(ref session.Ref, err error)
	// OnUnreplicated, if set, is called if a failover of Redis could lose a deletion, an opt-out, feedback or a lesson
	// change.
	OnUnreplicated func(err error)
	// OnJudgeWait, if set, is called when the judge (a model that rates sessions) has failed to answer and will be
	// asked again after d.
	OnJudgeWait func(err error, d time.Duration)
}

// Options configure a server.
type Options struct {
	Tools   Tools
	Config  *configs.Config // configuration at the start
	Source  *Source         // nil disables reloads
	Console io.Writer       // log and, once, the login link
	// TrueEffect returns a lesson's true effect. It is set only in the demo.
	TrueEffect func(slug string) (float64, bool)
	// OnReady is called when both listeners accept connections; nil writes a log line.
	OnReady func(data, admin string)
	// Notify, if set, sends a state to the service manager.
	Notify func(ctx context.Context, state string) error
	// Listen opens the listener for the address in a configuration key; nil means TCP. Tests use listeners in memory.
	Listen func(ctx context.Context, key, address string) (net.Listener, error)
	// DisableFileEvents disables the kernel's file events, because a testing/synctest bubble cannot wait for them.
	DisableFileEvents bool
	// Embedded is set for a server inside another program. It handles no signals and writes no run.json.
	Embedded bool
	// Addresses, if set, receives a RunFile as one JSON line when both listeners accept connections.
	Addresses io.Writer
	// UserRunFile is the file through which commands in other folders find the server; "" for none.
	UserRunFile string
}

// Server is a running precept. setup sets proxy, admin and services, and appends workers and cleanups.
type Server struct {
	options Options
	log     *slog.Logger
	level   *slog.LevelVar

	cfg       *configs.Config                // only for Run's goroutine
	effective atomic.Pointer[configs.Config] // copy of cfg for other goroutines
	reload    reloadStatus

	token      string // generated admin token; "" if tokens are configured
	showsLinks bool   // the token is new, so the console shows the login link and the agents' base URLs

	proxy    *proxy.Proxy
	admin    *admin.Server
	services *services // answers the admin pages
	workers  []worker  // started by serve
	cleanups []cleanup // stop runs the last cleanup first

	requests inFlightRequests
}

// inFlightRequests counts requests on the data listener. A shutdown waits for group, because a handler records the
// exchange at the end, and http.Server.Close does not wait for handlers.
type inFlightRequests struct {
	group   sync.WaitGroup
	current atomic.Int64
	total   atomic.Int64 // includes ended requests
}

// New returns a server, and starts nothing.
func New(o Options) *Server {
	log, level := newLogger(o.Console, o.Config.Log)
	return &Server{options: o, cfg: o.Config, log: log, level: level}
}

// Token returns the generated admin token, or "" if tokens are configured.
func (s *Server) Token() string { return s.token }

// Report returns the report for the admin pages.
func (s *Server) Report(ctx context.Context, q admin.ReportQuery) (report.Report, error) {
	return s.services.Report(ctx, q)
}

// Rules returns the rules file sections in effect.
func (s *Server) Rules() *rules.Registry { return s.services.Rules() }

// Run serves until ctx ends or, if Embedded is false, a signal arrives. The listeners come first, so Run does not touch
// the data directory if a port is in use. If a startup step fails, the cleanups registered with onStop undo the earlier
// steps.
func (s *Server) Run(ctx context.Context) error {
	if !s.options.Embedded {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // otherwise a log line ends the program once the log's reader is gone
	}
	listen := s.options.Listen
	if listen == nil {
		listen = listenTCP
	}
	data, err := listen(ctx, "listen", s.cfg.Listen)
	if err != nil {
		return err
	}
	s.onStop("data listener", closeQuietly(data))
	adminListener, err := listen(ctx, "admin.listen", s.cfg.Admin.Listen)
	if err != nil {
		return errors.Join(err, s.stop())
	}
	s.onStop("admin listener", closeQuietly(adminListener))
	if err := catchPanic(func() error { return s.setup(ctx, data, adminListener) }); err != nil {
		return errors.Join(err, s.stop())
	}
	return s.serve(ctx, data, adminListener)
}

// closeQuietly returns a cleanup that closes l, and ignores the error, because http.Server may already have closed l.
func closeQuietly(l net.Listener) func() error {
	return func() error {
		_ = l.Close()
		return nil
	}
}
