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

const (
	demoPollInterval = 250 * time.Millisecond  // pause between two reads of the agents' progress
	demoCloseAfter   = time.Second             // reward.close_after of the demo's server
	demoCloseWait    = 2500 * time.Millisecond // time for the last sessions to close and be rewarded
	maxDemoCloseWait = time.Minute             // maximum wait for the last sessions, on a busy machine
)

// demoFlags are the flags of `precept demo`.
type demoFlags struct {
	exit     bool
	circle   bool
	rules    bool
	gate     string // distill.gate of the circle: human or auto
	sessions int
	agents   int
	seed     uint64
	admin    string
	asJSON   bool
}

// withTextOutput returns an invocation for explanations. With --json, it prints them on standard error, because
// standard output contains only the JSON.
func (f *demoFlags) withTextOutput(inv *invocation) *invocation {
	if !f.asJSON {
		return inv
	}
	textInv := *inv
	textInv.stdout = inv.stderr
	return &textInv
}

func (f *demoFlags) writeResult(out io.Writer, v any) error {
	if !f.asJSON {
		return nil
	}
	return writeJSON(out, v)
}

type demoEffect struct {
	Name      string   `json:"name"` // slug of the lesson, or section of the rules file
	Arm       string   `json:"arm,omitempty"`
	True      *float64 `json:"true_effect,omitempty"`
	Effect    *float64 `json:"effect"` // null: not measured
	Lo        *float64 `json:"lo"`
	Hi        *float64 `json:"hi"`
	NInjected int64    `json:"n_injected"`
	NWithheld int64    `json:"n_withheld"`
	Verdict   string   `json:"verdict"`
}

// newDemoEffect returns the true and the measured effect; r is nil if the report has no row.
func newDemoEffect(name string, truth *float64, r *report.Row) demoEffect {
	if r == nil {
		return demoEffect{Name: name, True: truth, Verdict: "not matched yet"}
	}
	return demoEffect{name, r.Arm, truth, r.Effect, r.Lo, r.Hi, r.NInjected, r.NWithheld, string(r.Verdict)}
}

func (inv *invocation) demoCommand() *cobra.Command {
	var f demoFlags
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show how precept learns, with simulated agents and known true effects",
		Long: "Demo runs a complete precept in one process, on loopback and in a temporary directory. It has a built-in " +
			"model in two sizes, eight lessons (short pieces of advice) whose true effects are known, and two kinds of " +
			"simulated agents. The agents know only precept's base URL. The demo prints the measured effects next to " +
			"the true effects, and serves the dashboard until you stop the demo.",
		Args: argsValidator(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if f.circle && f.rules {
				return misuse(errors.New("--circle and --rules cannot be combined; give only one"))
			}
			if f.circle {
				return inv.runCircle(c.Context(), f)
			}
			if f.rules {
				return inv.runRules(c.Context(), f)
			}
			return inv.runDemo(c.Context(), f)
		},
	}
	c.Flags().BoolVar(
		&f.circle, "circle", false,
		"follow one lesson instead: agents fail, the distiller proposes a lesson, a person "+
			"approves the lesson, and precept injects and measures the lesson",
	)
	c.Flags().BoolVar(
		&f.rules, "rules", false,
		"measure the sections of a rules file instead: agents send a CLAUDE.md with twelve sections: "+
			"three help, two harm and seven do nothing",
	)
	c.Flags().StringVar(&f.gate, "gate", "human", "distill.gate with --circle: human or auto")
	_ = c.Flags().MarkHidden("gate") // for the test, which runs without a person
	c.Flags().BoolVar(
		&f.exit, "exit", false, "exit after the table; do not keep the dashboard running",
	)
	c.Flags().IntVar(&f.sessions, "sessions", 12_000, "number of sessions")
	c.Flags().IntVar(&f.agents, "agents", 16, "number of simultaneous agents")
	c.Flags().Uint64Var(&f.seed, "seed", 1, "random seed")
	addJSONFlag(c, &f.asJSON)
	c.Flags().StringVar(&f.admin, "admin-listen", "127.0.0.1:0", "dashboard address")
	return c
}

// withModel serves a simulated model, and calls runDemo with a server configuration. In the configuration, the model is
// the upstream, and the lessons from world.WriteLessons are in a temporary directory.
func withModel(ctx context.Context, name string, f demoFlags, world interface{ WriteLessons(dir string) error }, model http.Handler, extraKeys map[string]string, runDemo func(*configs.Config) error) error {
	dir, err := os.MkdirTemp("", "precept-"+name+"-")
	if err != nil {
		return fmt.Errorf("create the demo's directory: %w", err)
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
		"reward.close_after": demoCloseAfter.String(), "log.level": "error",
		"limits.drain_timeout": "2s", "bandit.salt": fmt.Sprint(name, "-", f.seed),
		"admin.currency": "USD", "admin.session_value": "2", "prices": demo.Prices,
	}
	maps.Copy(keys, extraKeys)
	cfg, err := configs.Parse(configs.Sources{Flags: keys})
	if err != nil {
		return err
	}
	return runDemo(cfg)
}

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

// withServer starts a server, calls runSteps, and stops the server. Without --exit, the server first serves the
// dashboard until the user stops the demo.
func withServer(ctx context.Context, o server.Options, f demoFlags, out io.Writer, runSteps func(ctx context.Context, s *server.Server, data, adminURL string) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	addresses := make(chan [2]string, 1)
	o.OnReady = func(data, adminURL string) { addresses <- [2]string{data, adminURL} }
	srv := server.New(o)
	failed := make(chan error, 1)
	go func() {
		failed <- cutExitError(srv.Run(ctx))
		stop()
	}()
	var stepsErr error
	select {
	case err := <-failed:
		return err
	case urls := <-addresses:
		stepsCtx, stopSignals := signalContext(ctx) // the server handles the signal as well
		defer stopSignals()
		stepsErr = runSteps(stepsCtx, srv, urls[0], urls[1])
		if stepsErr == nil && !f.exit {
			fmt.Fprintf(
				out, "\nThe dashboard runs until you stop the demo (Ctrl-C):\n%s\n",
				admin.LoginLink(urls[1], srv.Token()),
			)
			<-stepsCtx.Done()
		}
		if stepsCtx.Err() != nil {
			stepsErr = nil // the demo was stopped
		}
	}
	stop()
	return errors.Join(stepsErr, <-failed)
}

// formatPoints formats 0.05 as +5.0.
func formatPoints(x float64) string { return fmt.Sprintf("%+.1f", report.Points(x)) }

// waitForClosedSessions waits until the report counts all sessions, but at most for maxDemoCloseWait.
func waitForClosedSessions(ctx context.Context, srv *server.Server) error {
	limit := time.Now().Add(maxDemoCloseWait)
	if err := server.Sleep(ctx, demoCloseWait); err != nil {
		return err
	}
	for time.Now().Before(limit) {
		r, err := srv.Report(ctx, admin.ReportQuery{Tenant: "default"})
		if err != nil {
			return err
		}
		if r.Open == nil || r.Open.Sessions == 0 {
			return nil
		}
		if err := server.Sleep(ctx, demoPollInterval); err != nil {
			return err
		}
	}
	return nil
}
