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
	"slices"
	"strings"
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
	demoPollInterval = 250 * time.Millisecond  // interval between two reads of the progress of the agents
	demoCloseAfter   = time.Second             // reward.close_after of the demo's server
	demoSettleTime   = 2500 * time.Millisecond // time in which the last sessions close and their rewards are counted
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

// withTextOutput returns an invocation whose stdout receives the explanations of the demo. With --json, the
// explanations go to standard error, because standard output contains only the JSON.
func (f *demoFlags) withTextOutput(inv *invocation) *invocation {
	if !f.asJSON {
		return inv
	}
	textInv := *inv
	textInv.stdout = inv.stderr
	return &textInv
}

// writeResult writes the result of the demo as JSON to out. Without --json, writeResult does nothing.
func (f *demoFlags) writeResult(out io.Writer, v any) error {
	if !f.asJSON {
		return nil
	}
	return writeJSON(out, v)
}

// demoResult is the output of `precept demo --json`. Rates and effects are between -1 and 1.
type demoResult struct {
	Sessions int          `json:"sessions"`
	Lessons  []demoEffect `json:"lessons"`
	Success  struct {
		With float64 `json:"with_precept"`
		None float64 `json:"without_lessons"`
		Best float64 `json:"best_possible"` // with only the lessons that help, all the time
	} `json:"success"`
	PicksToPrevents int64 `json:"picks_to_prevents"` // closed picks until the proof that a lesson prevents its error; 0 means no proof
	PicksToHelps    int64 `json:"picks_to_helps"`    // rewarded picks until the proof that the same lesson helps; 0 means no proof
}

// demoEffect is the true effect of a lesson or section next to the measured effect.
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

// effectOf returns the true and the measured effect of a lesson or section. r is the row of the lesson or section in
// the report; nil means that the report has no row.
func effectOf(name string, truth *float64, r *report.Row) demoEffect {
	if r == nil {
		return demoEffect{Name: name, True: truth, Verdict: "not matched yet"}
	}
	return demoEffect{name, r.Arm, truth, r.Effect, r.Lo, r.Hi, r.NInjected, r.NWithheld, string(r.Verdict)}
}

// demo returns the command that runs simulated agents with known effects through a server.
func (inv *invocation) demo() *cobra.Command {
	var f demoFlags
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show how precept learns: simulated agents, and a model whose true effects are known",
		Long: "Demo runs a complete precept in one process, on loopback and in a temporary directory: a " +
			"built-in model in two sizes, eight lessons (short texts of advice) with known true effects, and " +
			"simulated agents of two kinds whose only setting for precept is its base URL. The demo prints the " +
			"measured effects next to the true effects, and serves the dashboard until the demo is stopped.",
		Args: arguments(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if f.circle && f.rules {
				return misuse(errors.New("--circle and --rules exclude each other; give one of them"))
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
		"measure the sections of a rules file instead: agents send a CLAUDE.md of twelve sections; "+
			"three help, two harm and seven do nothing",
	)
	c.Flags().StringVar(&f.gate, "gate", "human", "distill.gate with --circle: human or auto")
	_ = c.Flags().MarkHidden("gate") // for the test of the circle without a person
	c.Flags().BoolVar(
		&f.exit, "exit", false, "exit after the table; do not keep the dashboard running",
	)
	c.Flags().IntVar(&f.sessions, "sessions", 12_000, "number of sessions")
	c.Flags().IntVar(&f.agents, "agents", 16, "number of simultaneous agents")
	c.Flags().Uint64Var(&f.seed, "seed", 1, "seed of the random numbers")
	addJSON(c, &f.asJSON)
	c.Flags().StringVar(&f.admin, "admin-listen", "127.0.0.1:0", "address of the dashboard")
	return c
}

// runDemo starts the simulated model and a server on free ports, and then the simulated agents, which are called the
// fleet.
func (inv *invocation) runDemo(ctx context.Context, f demoFlags) error {
	if f.sessions < 1 || f.agents < 1 {
		return misuse(errors.New("--sessions or --agents is less than 1; give numbers of at least 1"))
	}
	world := demo.NewWorld(f.seed)
	model := demo.NewUpstream(world)
	return withModel(ctx, "demo", f, world, model, nil, func(cfg *configs.Config) error {
		d := &fleetDemo{invocation: f.withTextOutput(inv), results: inv.stdout, flags: f, world: world, model: model}
		o := server.Options{Tools: inv.tools, Config: cfg, Console: inv.stderr, Truth: world.Effect}
		return withServer(ctx, o, f, d.invocation.stdout, d.play)
	})
}

// withModel serves a simulated model while play runs. play gets the configuration of a server whose upstream is the
// model, in a temporary directory with the lessons of world. extra holds further configuration keys.
func withModel(ctx context.Context, name string, f demoFlags, world interface{ WriteLessons(dir string) error }, model http.Handler, extra map[string]string, play func(*configs.Config) error) error {
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
		"reward.close_after": demoCloseAfter.String(), "log.level": "error",
		"limits.drain_timeout": "2s", "bandit.salt": fmt.Sprint(name, "-", f.seed),
		"admin.currency": "USD", "admin.session_value": "2", "prices": demo.Prices,
	}
	maps.Copy(keys, extra)
	cfg, err := configs.Parse(configs.Sources{Flags: keys})
	if err != nil {
		return err
	}
	return play(cfg)
}

// serveModel serves a simulated model on a free port of the loopback interface.
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

// fleetDemo is one run of `precept demo` without --circle and --rules.
type fleetDemo struct {
	invocation *invocation
	results    io.Writer // standard output, for --json
	flags      demoFlags
	world      *demo.World
	model      *demo.Upstream
	proofs     proofCounts
}

// proofCounts holds the number of picks of the lesson demo.Pinned that each of two proofs needed. The first proof is
// that the lesson prevents its error. The second proof is that the lesson improves the reward.
type proofCounts struct {
	picksToPrevents int64 // closed picks until the proof that the lesson prevents its error; 0 means no proof yet
	picksToHelps    int64 // rewarded picks until the proof that the lesson improves the reward; 0 means no proof yet
	rewardedPicks   int64 // rewarded picks so far
}

// update updates the counts from the rows of a report.
func (s *proofCounts) update(rows []report.Row) {
	i := slices.IndexFunc(rows, func(r report.Row) bool { return r.Slug == demo.Pinned })
	if i < 0 {
		return
	}
	r := &rows[i]
	s.rewardedPicks = r.Rewarded
	if s.picksToHelps == 0 && r.Verdict == report.ProvenHelps {
		s.picksToHelps = r.Rewarded
	}
	for _, outcome := range r.Outcomes {
		if s.picksToPrevents == 0 && outcome.Verdict == report.Prevents {
			s.picksToPrevents = outcome.NInjected + outcome.NWithheld
		}
	}
}

// text compares the two numbers of picks in a sentence.
func (s *proofCounts) text() string {
	prevents, helps := "not proven yet", fmt.Sprintf("not proven after %d rewarded picks", s.rewardedPicks)
	if s.picksToPrevents > 0 {
		prevents = fmt.Sprintf("proven after %d picks, rewarded or not", s.picksToPrevents)
	}
	if s.picksToHelps > 0 {
		helps = fmt.Sprintf("proven after %d rewarded picks", s.picksToHelps)
	}
	return fmt.Sprintf("The lesson %s: the prevention of its error is %s;\nits effect on the reward is %s.", demo.Pinned, prevents, helps)
}

// withServer starts a server, calls play, and stops the server. Without --exit, the server serves the dashboard after
// play until a signal arrives or ctx ends.
func withServer(ctx context.Context, o server.Options, f demoFlags, out io.Writer, play func(ctx context.Context, s *server.Server, data, adminURL string) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	addresses := make(chan [2]string, 1)
	o.Ready = func(data, adminURL string) { addresses <- [2]string{data, adminURL} }
	srv := server.New(o)
	failed := make(chan error, 1)
	go func() {
		failed <- cutExit(srv.Run(ctx))
		stop()
	}()
	var playErr error
	select {
	case err := <-failed:
		return err
	case urls := <-addresses:
		playCtx, stopSignals := signalContext(ctx) // the server handles the signal as well
		defer stopSignals()
		playErr = play(playCtx, srv, urls[0], urls[1])
		if playErr == nil && !f.exit {
			fmt.Fprintf(
				out, "\nThe dashboard runs until you stop the demo (Ctrl-C):\n%s\n",
				admin.LoginLink(urls[1], srv.Token()),
			)
			<-playCtx.Done()
		}
		if playCtx.Err() != nil {
			playErr = nil // the demo was stopped
		}
	}
	stop()
	return errors.Join(playErr, <-failed)
}

// play runs the fleet on a server, and then prints the true effects next to the measured effects.
func (d *fleetDemo) play(ctx context.Context, srv *server.Server, data, adminURL string) error {
	out := d.invocation.stdout
	fmt.Fprintf(
		out,
		"%d agents work on %d tickets. Their only setting for precept: OPENAI_BASE_URL=%s/v1\n",
		d.flags.agents, d.flags.sessions, data,
	)
	fmt.Fprintf(out, "The dashboard shows how the lessons are measured: %s\n", admin.LoginLink(adminURL, srv.Token()))
	transport := &http.Transport{MaxIdleConnsPerHost: d.flags.agents}
	defer transport.CloseIdleConnections()
	fleet := &demo.Fleet{
		World: d.world, BaseURL: data + "/v1", Agents: d.flags.agents, Sessions: d.flags.sessions,
		Client: &http.Client{Transport: transport},
	}
	if err := d.run(ctx, srv, fleet); err != nil {
		return err
	}
	if err := server.Pause(ctx, demoSettleTime); err != nil {
		return err
	}
	r, err := srv.Report(ctx, admin.Query{Tenant: "default"})
	if err != nil {
		return err
	}
	d.proofs.update(r.Lessons)
	fmt.Fprintf(
		out, "\nTrue effect and measured effect of each lesson (percentage points of success):\n\n%s\n%s\n",
		demoTable(d.world.Truths, r.Lessons, outputWidth(d.invocation.stdout)), d.model.Score().Summary(),
	)
	fmt.Fprintf(out, "\n%s\n", d.proofs.text())
	if caught, calls := fleet.Loops(); caught > 0 {
		fmt.Fprintf(
			out, "Loop warnings ended %s. The first agent that a warning stopped had made %s.\n",
			amount(caught, "loop"), amount(calls, "equal call"),
		)
	}
	result := demoResult{Sessions: d.flags.sessions, PicksToPrevents: d.proofs.picksToPrevents, PicksToHelps: d.proofs.picksToHelps}
	score := d.model.Score()
	result.Success.With, result.Success.None, result.Success.Best = score.WithLessons, score.None, score.Best
	for _, l := range d.world.Truths {
		var row *report.Row
		if i := slices.IndexFunc(r.Lessons, func(r report.Row) bool { return r.Slug == l.Slug }); i >= 0 {
			row = &r.Lessons[i]
		}
		result.Lessons = append(result.Lessons, effectOf(l.Slug, &l.Effect, row))
	}
	return d.flags.writeResult(d.results, result)
}

// run plays all sessions and shows the progress on a terminal. Meanwhile, run reads the report at intervals, to count
// the picks until a proof.
func (d *fleetDemo) run(ctx context.Context, srv *server.Server, fleet *demo.Fleet) error {
	ended := make(chan error, 1)
	go func() { ended <- fleet.Run(ctx) }()
	ticker := time.NewTicker(demoPollInterval)
	defer ticker.Stop()
	bar, lastDone := newProgress(d.invocation.stderr, d.invocation.tools, "sessions", int64(d.flags.sessions)), int64(0)
	defer bar.end()
	for {
		select {
		case err := <-ended:
			return err
		case <-ticker.C:
			done, _ := fleet.Done()
			bar.add(done - lastDone)
			lastDone = done
			if r, err := srv.Report(ctx, admin.Query{Tenant: "default"}); err == nil {
				d.proofs.update(r.Lessons)
			}
		}
	}
}

// demoTable returns a table with the true effect of each lesson next to the measured effect. If the output has at least
// 90 columns, the table includes the numbers of sessions with and without the lesson.
func demoTable(truths []demo.Truth, rows []report.Row, columns int) string {
	const wide = 90
	var b strings.Builder
	line := func(lesson, truth, found, interval, sessions, verdict string) {
		fmt.Fprintf(&b, "%-26s %6s %6s  %-15s ", lesson, truth, found, interval)
		if columns >= wide {
			fmt.Fprintf(&b, "%9s ", sessions)
		}
		b.WriteString(" " + verdict + "\n")
	}
	line("lesson", "true", "found", "95% interval", "in/out", "verdict")
	widened := false
	for _, l := range truths {
		r := report.Row{Verdict: "not matched yet"}
		if i := slices.IndexFunc(rows, func(r report.Row) bool { return r.Slug == l.Slug }); i >= 0 {
			r = rows[i]
		}
		found, interval := "-", "-"
		if r.Effect != nil && r.Lo != nil && r.Hi != nil {
			found, interval = points(*r.Effect), points(*r.Lo)+" to "+points(*r.Hi)
			claims := []report.Verdict{report.Helps, report.Harms, report.ProvenHelps, report.ProvenHarms}
			widened = widened || slices.Contains(claims, r.Verdict) && *r.Lo <= 0 && *r.Hi >= 0
		}
		line(l.Slug, points(l.Effect), found, interval, fmt.Sprintf("%d/%d", r.NInjected, r.NWithheld), string(r.Verdict))
	}
	if widened {
		b.WriteString("\nA verdict is final. After the verdict only 5% of the picks are withheld, so the interval\n" +
			"can become wider again and include 0.\n")
	}
	return b.String()
}

// points formats a difference of rewards in percentage points: 0.05 is +5.0.
func points(x float64) string { return fmt.Sprintf("%+.1f", report.Points(x)) }
