package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"precept/admin"
	"precept/bandit/report"
	"precept/cmd/precept/demo"
	"precept/cmd/precept/server"
	"precept/configs"
)

// How the demo is drawn, and how long its sessions stay open.
const (
	demoDraw      = 250 * time.Millisecond
	demoDrawPlain = 5 * time.Second
	demoClose     = time.Second
	demoSettle    = 2500 * time.Millisecond // the last sessions close, and their rewards are counted
)

// demoFlags are the demo's own flags.
type demoFlags struct {
	exit     bool
	circle   bool
	gate     string // of the circle; "" is a person's
	sessions int
	agents   int
	seed     uint64
	admin    string
}

func (w *world) demo() *cobra.Command {
	var f demoFlags
	c := &cobra.Command{
		Use:   "demo",
		Short: "See precept learn: a fleet of simulated agents against a model with known truth",
		Long: "Demo runs a whole precept in one process, on loopback and in a temporary " +
			"directory: a built-in model, eight lessons whose true effects are known, and a " +
			"fleet of simulated agents that know nothing of precept but its base URL. It shows " +
			"what precept finds out beside what is true, and keeps the dashboard up until it is " +
			"stopped.",
		Args: arguments(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if f.circle {
				return w.runCircle(c.Context(), f)
			}
			return w.runDemo(c.Context(), f)
		},
	}
	c.Flags().BoolVar(
		&f.circle, "circle", false,
		"see one rule's whole way instead: agents fail, a lesson is distilled, approved, injected, measured",
	)
	c.Flags().BoolVar(
		&f.exit, "exit", false, "end after the table instead of keeping the dashboard up",
	)
	c.Flags().IntVar(&f.sessions, "sessions", 12_000, "sessions to play")
	c.Flags().IntVar(&f.agents, "agents", 16, "agents at work at a time")
	c.Flags().Uint64Var(&f.seed, "seed", 1, "seed of the world")
	c.Flags().StringVar(&f.admin, "admin-listen", "127.0.0.1:0", "address of the dashboard")
	return c
}

// runDemo puts model, precept and fleet together, each on a port of its own.
func (w *world) runDemo(ctx context.Context, f demoFlags) error {
	if f.sessions < 1 || f.agents < 1 {
		return misuse(errors.New("--sessions and --agents must be at least 1"))
	}
	play := demo.NewWorld(f.seed)
	model := demo.NewUpstream(play)
	return onModel(ctx, "demo", f, play, model, nil, func(cfg *configs.Config) error {
		d := &stage{outside: w, flags: f, world: play, model: model}
		o := server.Options{Tools: w.Tools, Config: cfg, Console: w.err, Truth: play.Effect}
		return onStage(ctx, o, f, w.out, d.play)
	})
}

// onModel serves a built-in model for as long as what is played on it goes on, and gives it the
// configuration of an ordinary server, with lessons in a directory of its own. more is what the
// configuration says besides.
func onModel(ctx context.Context, name string, f demoFlags, world interface{ WriteLessons(dir string) error }, model http.Handler, more map[string]string, play func(*configs.Config) error) error {
	dir, err := os.MkdirTemp("", "precept-"+name+"-")
	if err != nil {
		return fmt.Errorf("make the demo's directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	lessons := filepath.Join(dir, "lessons")
	if err := world.WriteLessons(lessons); err != nil {
		return err
	}
	stopModel, address, err := serveModel(ctx, model)
	if err != nil {
		return err
	}
	defer stopModel()
	keys := map[string]string{
		"listen": "127.0.0.1:0", "admin.listen": f.admin, "upstream": address,
		"data_dir": filepath.Join(dir, "data"), "lessons": lessons,
		"reward.close_after": demoClose.String(), "log.level": "error",
		"limits.drain_timeout": "2s", "bandit.salt": fmt.Sprint(name, "-", f.seed),
	}
	maps.Copy(keys, more)
	cfg, err := configs.Parse(configs.Sources{Flags: keys})
	if err != nil {
		return err
	}
	return play(cfg)
}

// serveModel serves the built-in model on a free port of loopback.
func serveModel(ctx context.Context, h http.Handler) (stop func(), address string, err error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", fmt.Errorf("listen for the demo's model: %w", err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(l) })
	return func() {
		_ = server.Close()
		wg.Wait()
	}, "http://" + l.Addr().String() + "/v1", nil
}

// stage is a demo at work.
type stage struct {
	outside *world
	server  *server.Server
	flags   demoFlags
	world   *demo.World
	model   *demo.Upstream
}

// onStage runs a server for as long as what is played on it goes on, and keeps its dashboard up
// after it, unless --exit says not to.
func onStage(ctx context.Context, o server.Options, f demoFlags, out io.Writer, play func(ctx context.Context, s *server.Server, data, adminURL string) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	addresses := make(chan [2]string, 1)
	o.Ready = func(data, adminURL string) { addresses <- [2]string{data, adminURL} }
	srv := server.New(o)
	failed := make(chan error, 1)
	go func() {
		failed <- stopped(srv.Run(ctx))
		stop()
	}()
	var played error
	select {
	case err := <-failed:
		return err
	case at := <-addresses:
		played = play(ctx, srv, at[0], at[1])
		if played == nil && !f.exit {
			fmt.Fprintf(
				out, "\nThe dashboard stays up until you stop the demo (Ctrl-C):\n%s\n",
				admin.LoginLink(at[1], srv.Token()),
			)
			<-ctx.Done()
		}
		if ctx.Err() != nil {
			played = nil // it was stopped
		}
	}
	stop()
	return errors.Join(played, <-failed)
}

// play runs the fleet on a server, and shows how it goes.
func (d *stage) play(ctx context.Context, on *server.Server, data, adminURL string) error {
	d.server = on
	out := d.outside.out
	fmt.Fprintf(
		out,
		"A fleet of %d agents works through %d tickets. They know one thing of precept: OPENAI_BASE_URL=%s/v1\n",
		d.flags.agents, d.flags.sessions, data,
	)
	fmt.Fprintf(out, "Dashboard: %s\n\n", admin.LoginLink(adminURL, d.server.Token()))
	transport := &http.Transport{MaxIdleConnsPerHost: d.flags.agents}
	defer transport.CloseIdleConnections()
	fleet := &demo.Fleet{
		World: d.world, BaseURL: data + "/v1", Agents: d.flags.agents, Sessions: d.flags.sessions,
		Client: &http.Client{Transport: transport},
	}
	var wg sync.WaitGroup
	played := make(chan error, 1)
	wg.Go(func() { played <- fleet.Run(ctx) })
	err := d.watch(ctx, fleet, played)
	wg.Wait()
	if err != nil {
		return err
	}
	if err := server.Pause(ctx, demoSettle); err != nil {
		return err
	}
	r, err := d.found(ctx)
	if err != nil {
		return err
	}
	p := demoPage{columns: d.outside.columns(), truths: d.world.Truths}
	_, err = fmt.Fprintf(
		out, "\nWhat is true, and what precept found out (points of success):\n\n%s\n%s\n", p.table(r.Lessons),
		d.model.Score().Summary(),
	)
	return err
}

// watch draws the progress until the fleet is done.
func (d *stage) watch(ctx context.Context, fleet *demo.Fleet, played <-chan error) error {
	columns, _, live := d.outside.screen()
	p := &demoPage{out: d.outside.out, live: live, columns: columns, truths: d.world.Truths, told: map[string]bool{}}
	every := demoDrawPlain
	if live {
		every = demoDraw
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	began := d.outside.Now()
	draw := func() {
		r, err := d.found(ctx)
		if err != nil {
			return // the last table tells it
		}
		s := soFar{total: int64(d.flags.sessions), elapsed: d.outside.Now().Sub(began)}
		s.done, s.success = fleet.Done()
		s.loops, s.calls = fleet.Loops()
		p.draw(s, r.Lessons)
	}
	for {
		select {
		case err := <-played:
			draw()
			return err
		case <-ticker.C:
			draw()
		}
	}
}

// found is what precept has found out.
func (d *stage) found(ctx context.Context) (report.Report, error) {
	return d.server.Report(ctx, admin.Query{Tenant: "default"})
}
