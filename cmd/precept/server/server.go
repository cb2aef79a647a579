// Package server runs the proxy, the admin server and their background workers.
//
// New returns a Server, and Server.Run runs it until a signal, the end of the context or the failure of a worker. A
// Server runs once. One process may run several servers, each with its own data directory and ports.
//
// Tools opens the store, the lessons and a distiller, for the server and for commands. The caller closes each of
// them.
package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"precept/admin"
	"precept/bandit/report"
	"precept/configs"
	"precept/inject/rules"
	"precept/internal/session"
	"precept/proxy"
)

// ErrCut reports that a stop cut open streams.
var ErrCut = errors.New("the stop cut streams that did not end within limits.drain_timeout")

// CutWait is the maximum time that a stop waits for the handlers of cut streams.
const CutWait = 2 * time.Second

// idleConnTimeout is the time after which the server closes an idle connection.
const idleConnTimeout = 120 * time.Second

// Tools holds the clock, the random source, and the function that reports damaged sessions. Tests replace them.
type Tools struct {
	Now    func() time.Time
	Random io.Reader // safe for concurrent use
	// OnDamaged is called for a session with a damaged exchange, whose content a reader leaves out; may be nil.
	OnDamaged func(ref session.Ref, err error)
}

// Options configure a server.
type Options struct {
	Tools   Tools
	Config  *configs.Config // configuration at the start
	Source  *Source         // reads the configuration for a reload; nil disables reloads
	Console io.Writer       // receives the log and, once, the login link
	// TrueEffect returns the true effect of a lesson in the demo; nil outside of the demo.
	TrueEffect func(slug string) (float64, bool)
	// OnReady is called once when both listeners accept connections; nil writes a log line instead.
	OnReady func(data, admin string)
	// Notify sends a state to the service manager; nil if there is none.
	Notify func(ctx context.Context, state string) error
	// Listen opens the listener for the address in a configuration key; nil means TCP. Tests use listeners in memory,
	// so that a server can run in a bubble of testing/synctest with a fake clock.
	Listen func(ctx context.Context, key, address string) (net.Listener, error)
	// PollOnly makes the server find changed lessons by polling and not by file events of the kernel. A bubble of
	// testing/synctest cannot wait for file events.
	PollOnly bool
	// Embedded is set for a server inside another program, such as a test or the demo. An embedded server handles no
	// signals and writes no run.json.
	Embedded bool
	// Addresses receives a RunFile as one line of JSON when both listeners accept connections; may be nil.
	Addresses io.Writer
	// UserRunFile is the path of the user's run file, through which commands in other folders find the server; "" means
	// that no such file is written.
	UserRunFile string
}

// Server is a running precept. setup sets the fields proxy, admin and services, and appends workers and cleanups.
type Server struct {
	options Options
	log     *slog.Logger
	level   *slog.LevelVar

	cfg       *configs.Config                // effective configuration; only the goroutine of Run uses this field
	effective atomic.Pointer[configs.Config] // copy of cfg for other goroutines
	reload    reloadStatus

	token      string // generated admin token; "" if tokens are configured
	showsLinks bool   // the token was created in this run, so the console shows the login link

	proxy    *proxy.Proxy
	admin    *admin.Server
	services *services // answers the admin pages
	workers  []worker  // started by serve
	cleanups []cleanup // onStop appends; stop runs the last cleanup first

	requests inFlightRequests
}

// inFlightRequests counts the requests on the data listener whose handlers have not returned. http.Server.Close does
// not wait for handlers, and a handler records its exchange at the end. Therefore a stop waits for group; otherwise the
// exchanges would be lost.
type inFlightRequests struct {
	group sync.WaitGroup
	n     atomic.Int64
}

// New returns a server. New opens no files or listeners and starts no goroutines.
func New(o Options) *Server {
	log, level := newLogger(o.Console, o.Config.Log)
	return &Server{options: o, cfg: o.Config, log: log, level: level}
}

// Token returns the generated admin token, or "" if tokens are configured.
func (s *Server) Token() string { return s.token }

// Report returns the report that the admin pages show.
func (s *Server) Report(ctx context.Context, q admin.ReportQuery) (report.Report, error) {
	return s.services.Report(ctx, q)
}

// Rules returns the registered sections of rules files that are in effect.
func (s *Server) Rules() *rules.Registry { return s.services.Rules() }

// Run serves until ctx ends or, if Embedded is false, a signal arrives. Run opens the listeners first, so that a
// start on a port in use does not touch the data directory. Each step of the start registers a cleanup with onStop.
// If a later step fails, the cleanups undo the earlier steps.
func (s *Server) Run(ctx context.Context) error {
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

// closeQuietly returns a function that closes a listener and ignores the error. The http.Server may have closed the
// listener before, which makes the second close fail.
func closeQuietly(l net.Listener) func() error {
	return func() error {
		_ = l.Close()
		return nil
	}
}
