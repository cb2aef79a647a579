// Package server runs the proxy, the admin server and their workers: setup, reload, drain and stop.
//
// New returns a Server. Run opens the listeners, sets up the server, starts the workers, and serves until a signal,
// the end of the context or the failure of a worker. Several servers may live in one process, each on a data
// directory and on ports of its own. A server runs once.
//
// Tools opens the store, the bank of lessons and a distiller for the server and for commands. The
// caller closes what Tools opens.
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

// ErrCut is the error of a stop that cut streams.
var ErrCut = errors.New("the stop cut streams that did not end within limits.drain_timeout")

// CutWait is the maximum time that a stop waits for the handlers of cut streams.
const CutWait = 2 * time.Second

// idleConnTimeout is the time after which an idle connection is closed.
const idleConnTimeout = 120 * time.Second

// Tools holds the clock and the random source of the program, and the function that reports damaged sessions.
type Tools struct {
	Now    func() time.Time
	Random io.Reader // safe for concurrent use
	// Damaged is called when a reader leaves out the content of a session, because one of its exchanges is damaged;
	// nil means not called.
	Damaged func(of session.Ref, err error)
}

// Options configure a server.
type Options struct {
	Tools   Tools
	Config  *configs.Config                               // effective from the start
	Source  *Source                                       // source of the configuration for reloads; nil means no reloads
	Console io.Writer                                     // receives the log, and the login link once
	Truth   func(slug string) (float64, bool)             // the true effect of a lesson in the demo; nil elsewhere
	Ready   func(data, admin string)                      // called once, when both listeners accept; nil means a log line instead
	Notify  func(ctx context.Context, state string) error // informs a service manager; nil means no service manager
	// Listen opens a port for a key of the configuration; nil is TCP. With listeners in memory a
	// whole server runs in a bubble of testing/synctest, which has a fake clock.
	Listen func(ctx context.Context, key, address string) (net.Listener, error)
	// PollOnly finds changed lessons by polling alone, because a bubble of testing/synctest cannot wait
	// for file events of the kernel.
	PollOnly bool
	// Embedded is true for a server inside another program, such as a test or the demo: the server receives no
	// signals and writes no run.json.
	Embedded bool
	// Addresses receives one line of JSON, a RunFile, when both listeners accept; nil means not written.
	Addresses io.Writer
	// UserRunFile is the path of the run file of this user, which commands in other folders read; "" for none.
	UserRunFile string
}

// Server is one running precept. setup fills the fields from proxy on.
type Server struct {
	options Options
	log     *slog.Logger
	level   *slog.LevelVar

	cfg       *configs.Config                // effective; only the goroutine of Run uses cfg
	effective atomic.Pointer[configs.Config] // the same configuration for other goroutines
	reload    reloadStatus

	token      string // generated; "" when the configuration has tokens
	showsLinks bool   // the token was generated in this run, and the console gets the login link

	proxy    *proxy.Proxy
	admin    *admin.Server
	services *services // answers the admin pages
	workers  []worker  // started by serve
	cleanups []cleanup // the onStop stack: stop runs the last registered cleanup first

	requests openRequests
}

// openRequests counts the requests on the data listener. A stop waits for their handlers, which record their exchanges
// at the end: http.Server.Close does not wait.
type openRequests struct {
	group sync.WaitGroup
	n     atomic.Int64
}

// New returns a server. Only Run opens files and listeners and starts goroutines.
func New(o Options) *Server {
	log, level := newLogger(o.Console, o.Config.Log)
	return &Server{options: o, cfg: o.Config, log: log, level: level}
}

// Token returns the generated admin token, "" when the configuration has tokens.
func (s *Server) Token() string { return s.token }

// Report returns the report of the running server.
func (s *Server) Report(ctx context.Context, q admin.Query) (report.Report, error) {
	return s.services.Report(ctx, q)
}

// Rules returns the registered sections of rules files that are in effect in the running server.
func (s *Server) Rules() *rules.Registry { return s.services.Rules() }

// Run serves until ctx ends or, if Embedded is false, a signal arrives. Run opens the listeners before everything else,
// so that a start on a taken port does not touch the data directory. Every step of the start registers its stop on the
// onStop stack; the stack also rolls back a start that failed halfway.
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
	if err := withoutPanic(func() error { return s.setup(ctx, data, adminListener) }); err != nil {
		return errors.Join(err, s.stop())
	}
	return s.serve(ctx, data, adminListener)
}

// closeQuietly closes a listener that its http.Server may have closed before.
func closeQuietly(l net.Listener) func() error {
	return func() error {
		_ = l.Close()
		return nil
	}
}
