package server

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"precept/admin"
	"precept/bandit/report"
	"precept/configs"
	"precept/proxy"
)

// ErrCut says that a stop cut streams that did not end in limits.drain_timeout.
var ErrCut = errors.New("streams were cut")

// How long a stop waits for handlers that were cut, and an idle connection is kept.
const (
	CutWait  = 2 * time.Second
	idleConn = 120 * time.Second
)

// Options are what a server is made of.
type Options struct {
	Tools
	Config  *configs.Config                               // in force from the start
	Source  *Source                                       // where the configuration is read again; nil: it stays as it is
	Console io.Writer                                     // where a person finds the log, and the login link once
	Truth   func(slug string) (float64, bool)             // the demo's; nil elsewhere
	Ready   func(data, admin string)                      // told once, when both listeners accept; nil: the log tells it
	Notify  func(ctx context.Context, state string) error // tells a service manager; nil: nobody asks
	// Listen opens a port for a key of the configuration; nil is TCP. With ports in memory a whole
	// server lives in a bubble of testing/synctest, where an hour takes no time.
	Listen func(ctx context.Context, key, address string) (net.Listener, error)
	// Within says that the server serves others in the same process: it hears no signals and leaves
	// no run.json behind.
	Within bool
}

// Server is a precept. New makes it, Run is its life.
type Server struct {
	Tools
	options Options
	cfg     *configs.Config // in force; of the goroutine of Run only
	log     *logger

	parts    *parts // put together by wireUp
	admin    *admin.Server
	token    string                         // generated, "" when the configuration names tokens
	first    bool                           // the token was made in this run: people are told where things are
	started  *configs.Config                // what the keys have that need a new start
	faults   note                           // what was wrong at the last reload
	waiting  note                           // the keys that differ from what is in force until there is a new start
	shown    atomic.Pointer[configs.Config] // cfg, for whoever looks
	requests inFlight
}

// New makes a server. It starts and opens nothing.
func New(o Options) *Server {
	return &Server{Tools: o.Tools, options: o, cfg: o.Config, started: o.Config, log: newLogger(
		o.Console, o.Config.Log, o.Now,
	)}
}

// Token is the admin token that was generated, "" when the configuration names tokens.
func (s *Server) Token() string { return s.token }

// Report is what the running server has found out.
func (s *Server) Report(ctx context.Context, q admin.Query) (report.Report, error) {
	return s.parts.Report(ctx, q)
}

// Run serves until ctx ends or, unless it serves within another program, a signal stops it. It
// opens the listeners first: a port that is taken is told before anything else is touched.
func (s *Server) Run(ctx context.Context) error {
	listen := s.options.Listen
	if listen == nil {
		listen = listenTCP
	}
	data, err := listen(ctx, "listen", s.cfg.Listen)
	if err != nil {
		return err
	}
	defer closeQuietly(data)
	adminListener, err := listen(ctx, "admin.listen", s.cfg.Admin.Listen)
	if err != nil {
		return err
	}
	defer closeQuietly(adminListener)
	if s.parts, err = s.Tools.wireUp(ctx, s.cfg, s.log.Logger); err != nil {
		return err
	}
	if err := s.openAdmin(data, adminListener); err != nil {
		return errors.Join(err, s.parts.close())
	}
	return s.serveUntilStopped(ctx, data, adminListener)
}

// serveUntilStopped runs both listeners and the owners, then stops them in the order data, admin,
// owners.
func (s *Server) serveUntilStopped(
	ctx context.Context, dataListener, adminListener net.Listener,
) error {
	stop, again := make(chan os.Signal, 2), make(chan os.Signal, 1) // apart: a flood of SIGHUP must not crowd SIGTERM out
	if !s.options.Within {
		signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
		signal.Notify(again, syscall.SIGHUP)
		defer signal.Stop(stop)
		defer signal.Stop(again)
	}

	owned, stopOwners := context.WithCancel(context.WithoutCancel(ctx))
	defer stopOwners()
	var owners sync.WaitGroup
	all := slices.Concat(s.parts.owners, s.admin.Owners())
	failed := make(chan error, len(all)+2)
	for _, owner := range all {
		owners.Go(func() {
			if err := s.outlive(owned, owner); err != nil && owned.Err() == nil {
				failed <- err
			}
		})
	}
	changed := make(chan struct{}, 1)
	if s.options.Source != nil {
		owners.Go(func() { _ = s.outlive(owned, s.options.Source.watch(changed)) }) // it has no errors
	}

	limited := proxy.NewLimitListener(dataListener, s.Now)
	data := s.httpServer(limited.CloseWhenFull(s.counted(s.parts.proxy.Handler()))) //nolint:contextcheck // each request brings its own
	data.ConnState = limited.Watch
	adminServer := s.httpServer(s.admin)
	owners.Go(func() { failed <- serveOn(data, limited) })
	owners.Go(func() { failed <- serveOn(adminServer, adminListener) })

	s.announce(ctx, localURL(dataListener.Addr()), localURL(adminListener.Addr()))
	err := s.untilStopped(ctx, stop, again, changed, failed)

	if !s.options.Within {
		s.notify(ctx, "STOPPING=1\nSTATUS=streams end")
	}
	cut := s.stopData(ctx, data, stop)
	if !s.options.Within {
		removeRunFile(s.cfg.DataDir)
	}
	err = errors.Join(err, adminServer.Close())
	stopOwners()
	owners.Wait()
	err = errors.Join(err, s.parts.close())
	s.log.Info("precept stopped", "cut", cut)
	if err == nil && cut {
		return ErrCut
	}
	return err
}

// untilStopped waits for the reason to stop; meanwhile it reloads, and gives back the memory of an
// idle server. The error is the reason when it is a bad one.
func (s *Server) untilStopped(
	ctx context.Context, stop, again <-chan os.Signal, changed <-chan struct{}, failed <-chan error,
) error {
	look := time.NewTicker(idleEvery)
	defer look.Stop()
	rest := idle{allocated()}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
			rest.look()
		case err := <-failed:
			return err
		case <-changed:
			s.reload()
		case <-again:
			s.reload()
		case sig := <-stop:
			s.log.Info(
				"stopping", "signal", sig.String(), "drain", s.cfg.Limits.DrainTimeout.String(),
			)
			return nil
		}
	}
}
