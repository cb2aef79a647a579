package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"precept/proxy"
)

// serve starts the workers and serves both listeners until there is a reason to stop. The cleanups then run in reverse
// order: data server, run.json, admin server, workers, and the resources that setup opened.
func (s *Server) serve(ctx context.Context, dataListener, adminListener net.Listener) error {
	stop, reload := make(chan os.Signal, 2), make(chan os.Signal, 1) // in a shared channel, many SIGHUPs could leave no room for a SIGTERM
	if !s.options.Embedded {
		signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
		signal.Notify(reload, syscall.SIGHUP)
		defer signal.Stop(stop)
		defer signal.Stop(reload)
	}

	// The workers stop after the listeners, so workCtx outlives ctx.
	workCtx, stopWorkers := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWorkers()
	var wg sync.WaitGroup
	s.onStop("workers", func() error {
		stopWorkers()
		wg.Wait()
		return nil
	})
	changed := make(chan struct{}, 1)
	if s.options.Source != nil {
		s.addWorker("configuration watcher", s.options.Source.watch(changed, func() {
			s.log.Warn("the configuration file is missing; the last configuration stays in effect until the file is back", "file", s.options.Source.File)
		}))
	}
	failed := make(chan error, len(s.workers)+2)
	for _, w := range s.workers {
		wg.Go(func() {
			if err := s.keepRunning(workCtx, w); err != nil && workCtx.Err() == nil {
				failed <- err
			}
		})
	}

	adminServer := s.httpServer(s.admin)
	s.onStop("admin server", adminServer.Close)
	wg.Go(func() { failed <- serveOn(adminServer, adminListener) })

	if !s.options.Embedded {
		s.onStop("run.json", func() error {
			removeRunFile(s.cfg.DataDir)
			removeUserRunFile(s.options.UserRunFile)
			return nil
		})
	}
	limited := proxy.NewLimitListener(dataListener, s.options.Tools.Now)
	agents := s.proxy.Handler() //nolint:contextcheck // each request has its own context
	handler := welcome(localURL(dataListener.Addr()), s.dashboardURL(localURL(adminListener.Addr())), agents)
	dataServer := s.httpServer(limited.CloseWhenFull(s.countRequests(handler)))
	dataServer.ConnState = limited.TrackState
	requestCtx, cancelRequests := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelRequests()
	dataServer.BaseContext = func(net.Listener) context.Context { return requestCtx }
	streamsCut := false
	s.onStop("data server", func() error {
		streamsCut = s.drain(ctx, dataServer, cancelRequests, stop)
		return nil
	})
	wg.Go(func() { failed <- serveOn(dataServer, limited) })

	s.announce(ctx, localURL(dataListener.Addr()), localURL(adminListener.Addr()))
	err := s.waitForStop(ctx, stop, reload, changed, failed)

	if !s.options.Embedded {
		s.notify(ctx, "STOPPING=1\nSTATUS=waiting for streams to end")
	}
	err = errors.Join(err, s.stop())
	s.log.Info("precept stopped", "cut", streamsCut)
	if err == nil && streamsCut {
		return ErrStreamsCut
	}
	return err
}

// waitForStop waits until ctx ends, a signal arrives, or a worker or listener fails. It returns the error from a failed
// worker or listener. Until then, it reloads a changed configuration, and returns an idle server's memory to the
// system.
func (s *Server) waitForStop(
	ctx context.Context, stop, reload <-chan os.Signal, changed <-chan struct{}, failed <-chan error,
) error {
	idleTicker := time.NewTicker(idleInterval)
	defer idleTicker.Stop()
	memory := idleMemory{totalAlloc()}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-idleTicker.C:
			memory.release()
		case err := <-failed:
			return err
		case <-changed:
			s.reloadConfig()
		case <-reload:
			s.reloadConfig()
		case sig := <-stop:
			s.log.Info("stopping", "signal", sig.String(), "drain", s.cfg.Limits.DrainTimeout.String())
			return nil
		}
	}
}

func (s *Server) announce(ctx context.Context, dataURL, adminURL string) {
	debug.FreeOSMemory() // memory that only startup needed
	if s.showsLinks {
		fmt.Fprintf(s.options.Console, "agents: OPENAI_BASE_URL=%s/v1 or ANTHROPIC_BASE_URL=%s; upstream: %s\n", dataURL, dataURL, strings.Join(s.cfg.UpstreamURLs(), " and "))
	}
	if !s.showsLinks && s.options.OnReady == nil && s.cfg.Log.Format != "json" {
		fmt.Fprintf(s.options.Console, "dashboard: %s (`precept dashboard` prints the login link)\n", s.dashboardURL(adminURL))
	}
	if s.cfg.Tenancy != "keys" && !isLoopback(s.cfg.Listen) {
		s.log.Warn("other machines can post feedback and lessons without a key; set tenancy to keys, or let only trusted clients reach the data listener", "listen", s.cfg.Listen)
	}
	if s.options.OnReady == nil {
		logAlways(ctx, s.log, s.options.Tools.Now(), "precept ready", "data", dataURL, "admin", adminURL)
	}
	run := RunFile{PID: os.Getpid(), DataURL: dataURL, AdminURL: adminURL, CloseAfter: s.cfg.Reward.CloseAfter.String(), Upstreams: s.cfg.UpstreamURLs()}
	if !s.options.Embedded {
		user := UserRun{PID: run.PID, DataURL: dataURL, AdminURL: adminURL, DataDir: s.cfg.DataDir, Lessons: s.cfg.Lessons}
		if s.options.Source != nil {
			user.Config = s.options.Source.File
		}
		if err := writeUserRunFile(s.options.UserRunFile, user); err != nil {
			s.log.Debug("the user's run file cannot be written; set PRECEPT_URL for `precept run` in other folders", "file", s.options.UserRunFile, "error", err)
		}
		if err := WriteRunFile(s.cfg.DataDir, run); err != nil {
			s.log.Warn("run.json cannot be written; other commands do not find this server", "error", err)
		}
		s.notify(ctx, "READY=1\nSTATUS=data "+dataURL+", admin "+adminURL)
	}
	if s.options.Addresses != nil {
		if err := json.NewEncoder(s.options.Addresses).Encode(run); err != nil {
			s.log.Warn("the addresses cannot be written to standard output", "error", err)
		}
	}
	if s.options.OnReady != nil {
		s.options.OnReady(dataURL, adminURL)
	}
}

func (s *Server) notify(ctx context.Context, state string) {
	if s.options.Notify == nil {
		return
	}
	if err := s.options.Notify(ctx, state); err != nil {
		s.log.Warn("the service manager cannot be notified", "error", err)
	}
}

func listenTCP(ctx context.Context, key, address string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		flag := strings.ReplaceAll(key, ".", "-")
		return nil, fmt.Errorf("%s: another process, perhaps another precept, uses %s; stop that process, or choose another address with --%s", key, address, flag)
	}
	if err != nil {
		return nil, listenError(key, err)
	}
	return l, nil
}

// listenError adds a remedy to a listener's error.
func listenError(key string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%s: %w; choose a port above 1023, or give precept the right to bind the port (on Linux CAP_NET_BIND_SERVICE)", key, err)
	}
	return fmt.Errorf("%s: %w; choose an address on this machine", key, err)
}

func (s *Server) httpServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: s.cfg.Limits.HeaderTimeout,
		IdleTimeout:       idleConnTimeout,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // client errors are common and need no action
	}
}

func serveOn(server *http.Server, l net.Listener) error {
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	}
	return nil
}

// localURL returns a listener's URL. For a listener on all addresses, the URL has the loopback address.
func localURL(a net.Addr) string {
	address, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return "http://" + a.String()
	}
	if ip := address.Addr(); ip.IsUnspecified() {
		address = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), address.Port())
	}
	return "http://" + address.String()
}
