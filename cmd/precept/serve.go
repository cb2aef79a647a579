package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"precept/admin"
	"precept/configs"
	"precept/proxy"
)

// How long a stop waits for handlers that were cut, and an idle connection is kept.
const (
	cutWait  = 2 * time.Second
	idleConn = 120 * time.Second
)

// service is a precept that has been put together (wire_up.go) and not been started.
type service struct {
	data    http.Handler
	owners  []func(context.Context) error // the goroutines: each runs until its context ends, and writes down what it holds
	reload  func(*configs.Config) error   // takes over what a running server can
	drain   func()                        // makes /readyz say no
	close   func() error                  // after the owners have returned
	report  admin.Reporter
	forget  admin.Forgetter
	keep    admin.Keeper
	library *library
	archive admin.Archive
	rate    admin.Rater
	export  admin.Exporter
	vitals  *vitals
	figures func(context.Context) []admin.Figure
	ready   func() error
	metrics http.Handler
}

func (w *world) serve() *cobra.Command {
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the proxy",
		Long:  "Serve runs the proxy until SIGTERM or SIGINT; it then lets streams end for limits.drain_timeout, a second signal cuts them. SIGHUP, or a change of the file, reads the configuration again; one with faults leaves the old one in force.",
		Args:  arguments(cobra.NoArgs),
	}
	flags := addConfigFlags(c)
	show := c.Flags().Bool("print-config", false, "print the configuration in force, without secrets, and end")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := flags.load(w, false)
		if err != nil {
			return err
		}
		if *show {
			return w.printConfig(cfg)
		}
		s := &server{world: w, flags: flags, cfg: cfg, log: newLogger(w.err, cfg.Log)}
		return s.run(c.Context())
	}
	return c
}

// server is the verb at work.
type server struct {
	*world
	flags *configFlags
	cfg   *configs.Config // in force; of the goroutine of run only
	log   *logger

	truth  func(slug string) (float64, bool) // the demo's; nil elsewhere
	ready  func(data, admin string)          // told once, when both listeners accept; nil: nobody asks
	within bool                              // it serves one run of an agent, in the same process: no signals, no run.json

	service  *service
	admin    *admin.Server
	token    string                         // generated, "" when the configuration names tokens
	started  *configs.Config                // what the keys have that need a new start
	faults   note                           // what was wrong at the last reload
	waiting  note                           // the keys that differ from what is in force until there is a new start
	shown    atomic.Pointer[configs.Config] // cfg, for whoever looks
	inFlight sync.WaitGroup                 // requests on the data listener
}

// run opens the listeners first: a port that is taken is told before anything else is touched.
func (s *server) run(ctx context.Context) error {
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
	if s.service, err = s.wireUp(ctx, s.cfg, s.log.Logger); err != nil {
		return err
	}
	if err := s.openAdmin(adminListener); err != nil {
		return errors.Join(err, s.service.close())
	}
	return s.serveUntilStopped(ctx, data, adminListener)
}

func listen(ctx context.Context, key, address string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; free the address or choose another one", key, err)
	}
	return l, nil
}

// closeQuietly closes a listener that its server may have closed already.
func closeQuietly(l net.Listener) { _ = l.Close() }

// openAdmin makes the admin face, with a token of its own when the configuration names none.
func (s *server) openAdmin(l net.Listener) error {
	base := localURL(l.Addr())
	if len(s.cfg.Admin.Tokens) == 0 {
		token, fresh, err := admin.EnsureToken(s.cfg.DataDir, s.random)
		if token == "" {
			return err
		}
		if err != nil {
			s.log.Warn("admin token", "error", err)
		}
		s.token = token
		if fresh && s.ready == nil {
			kept := "the token is kept in " + filepath.Join(s.cfg.DataDir, admin.TokenFile)
			if err != nil {
				kept = "it holds until precept stops"
			}
			fmt.Fprintf(s.err, "dashboard: %s (shown once; %s)\n", admin.LoginLink(base, token), kept)
		}
	}
	s.started = s.cfg
	s.shown.Store(s.cfg)
	s.service.vitals.serves(s)
	notes := s.cfg.DataDir
	if s.within {
		notes = ""
	}
	var err error
	s.admin, err = admin.New(admin.Options{
		Access: s.access(s.cfg), Listen: l.Addr().String(), Report: s.service.report, Forget: s.service.forget, Keep: s.service.keep, Library: s.service.library, Survey: s.service.library, Figures: s.adminFigures,
		Ready: s.service.ready, Truth: s.truth, Metrics: s.service.metrics,
		Archive: s.service.archive, Rate: s.service.rate, Export: s.service.export, Health: s.service.vitals.health, DataDir: notes,
		Random: s.random, Now: s.now, Log: s.log.Logger,
	})
	return err
}

// access is who may come in under a configuration.
func (s *server) access(cfg *configs.Config) admin.Access {
	a := admin.Access{Hosts: cfg.Admin.Hosts, PublicMetrics: cfg.Metrics.Public}
	for _, t := range cfg.Admin.Tokens {
		a.Tokens = append(a.Tokens, t.Reveal())
	}
	for _, t := range cfg.Admin.ViewerTokens {
		a.Viewers = append(a.Viewers, t.Reveal())
	}
	if len(a.Tokens) == 0 && s.token != "" {
		a.Tokens = []string{s.token}
	}
	return a
}

// adminFigures is the service's health and, when there is one, the fault of the last reload.
func (s *server) adminFigures(ctx context.Context) []admin.Figure {
	var out []admin.Figure
	if fault := s.faults.get(); fault != "" {
		out = append(out, admin.Figure{Name: "Configuration", Value: "the old one is in force: " + fault, Bad: true})
	}
	if waiting := s.waiting.get(); waiting != "" {
		out = append(out, admin.Figure{Name: "Configuration", Value: "needs a new start: " + waiting, Bad: true})
	}
	if s.service.figures != nil {
		out = append(out, s.service.figures(ctx)...)
	}
	return out
}

// serveUntilStopped runs both listeners and the owners, then stops them in the order data, admin,
// owners.
func (s *server) serveUntilStopped(ctx context.Context, dataListener, adminListener net.Listener) error {
	stop, again := make(chan os.Signal, 2), make(chan os.Signal, 1) // apart: a flood of SIGHUP must not crowd SIGTERM out
	if !s.within {
		signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
		signal.Notify(again, syscall.SIGHUP)
		defer signal.Stop(stop)
		defer signal.Stop(again)
	}

	owned, stopOwners := context.WithCancel(context.WithoutCancel(ctx))
	defer stopOwners()
	var owners sync.WaitGroup
	failed := make(chan error, len(s.service.owners)+2)
	for _, owner := range s.service.owners {
		owners.Go(func() {
			if err := s.outlive(owned, owner); err != nil && owned.Err() == nil {
				failed <- err
			}
		})
	}
	changed := make(chan struct{}, 1)
	path := s.flags.path(s.world)
	owners.Go(func() {
		_ = s.outlive(owned, func(ctx context.Context) error { watchFile(ctx, path, s.flags.read.Load, changed); return nil }) // it has no errors
	})

	data := s.httpServer(s.counted(s.service.data))
	door := proxy.NewDoor(dataListener)
	data.ConnState = door.Watch
	adminServer := s.httpServer(s.admin)
	owners.Go(func() { failed <- serveOn(data, door) })
	owners.Go(func() { failed <- serveOn(adminServer, adminListener) })

	s.announce(ctx, localURL(dataListener.Addr()), localURL(adminListener.Addr()))
	err := s.untilStopped(ctx, stop, again, changed, failed)

	if !s.within {
		s.tell(ctx, "STOPPING=1\nSTATUS=streams end")
	}
	cut := s.stopData(ctx, data, stop)
	if !s.within {
		removeRunFile(s.cfg.DataDir)
	}
	err = errors.Join(err, adminServer.Close())
	stopOwners()
	owners.Wait()
	err = errors.Join(err, s.service.close())
	s.log.Info("precept stopped", "cut", cut)
	if err == nil && cut {
		return &codedError{code: exitCut}
	}
	return err
}

// untilStopped waits for the reason to stop and reloads meanwhile. The error is the reason when it
// is a bad one.
func (s *server) untilStopped(ctx context.Context, stop, again <-chan os.Signal, changed <-chan struct{}, failed <-chan error) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case <-changed:
			s.reload()
		case <-again:
			s.reload()
		case sig := <-stop:
			s.log.Info("stopping", "signal", sig.String(), "drain", s.cfg.Limits.DrainTimeout.String())
			return nil
		}
	}
}

func (s *server) httpServer(h http.Handler) *http.Server {
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

// announce says, once, where precept is: to people and to programs.
func (s *server) announce(ctx context.Context, data, adminURL string) {
	debug.FreeOSMemory() // starting reads and compiles a lot that is not needed again
	if s.ready == nil {
		s.log.always(ctx, "precept ready", "data", data, "admin", adminURL)
	}
	if !s.within {
		if err := writeRunFile(s.cfg.DataDir, runFile{PID: os.Getpid(), Data: data, Admin: adminURL}); err != nil {
			s.log.Warn("run.json cannot be written", "error", err)
		}
		s.tell(ctx, "READY=1\nSTATUS=data "+data+", admin "+adminURL)
	}
	if s.ready != nil {
		s.ready(data, adminURL)
	}
}

// tell keeps the service manager informed, where there is one; precept does without it.
func (s *server) tell(ctx context.Context, state string) {
	if err := s.tellManager(ctx, state); err != nil {
		s.log.Warn("the service manager was not told", "error", err)
	}
}
