package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"precept/admin"
	"precept/bandit/report"
	"precept/cmd/precept/demo"
	"precept/cmd/precept/server"
	"precept/configs"
)

func (inv *invocation) runDemo(ctx context.Context, f demoFlags) error {
	if f.sessions < 1 || f.agents < 1 {
		return misuse(errors.New("--sessions or --agents is less than 1; give 1 or more"))
	}
	world := demo.NewWorld(f.seed)
	model := demo.NewUpstream(world)
	return withModel(ctx, "demo", f, world, model, nil, func(cfg *configs.Config) error {
		d := &fleetDemo{invocation: f.withTextOutput(inv), results: inv.stdout, flags: f, world: world, model: model}
		o := server.Options{Tools: inv.tools, Config: cfg, Console: inv.stderr, TrueEffect: world.Effect}
		return withServer(ctx, o, f, d.invocation.stdout, d.runSteps)
	})
}

type fleetDemo struct {
	invocation *invocation
	results    io.Writer
	flags      demoFlags
	world      *demo.World
	model      *demo.Upstream
	proofs     proofCounts
}

// proofCounts holds how many picks (sessions for which the lesson demo.Pinned was chosen) each of two proofs needed.
type proofCounts struct {
	picksToPrevents int64 // picks until the proof that the lesson prevents the error; 0: no proof yet
	picksToHelps    int64 // picks until the proof that the lesson improves the reward; 0: no proof yet
	rewardedPicks   int64
}

func (p *proofCounts) update(rows []report.Row) {
	r := reportRow(rows, demo.Pinned)
	if r == nil {
		return
	}
	p.rewardedPicks = r.Rewarded
	if p.picksToHelps == 0 && r.Verdict == report.ProvenHelps {
		p.picksToHelps = r.Rewarded
	}
	for _, outcome := range r.Outcomes {
		if p.picksToPrevents == 0 && outcome.Verdict == report.Prevents {
			p.picksToPrevents = outcome.NInjected + outcome.NWithheld
		}
	}
}

func (p *proofCounts) text() string {
	prevents, helps := "not proven yet", fmt.Sprintf("not proven after %d picks with a reward", p.rewardedPicks)
	if p.picksToPrevents > 0 {
		prevents = fmt.Sprintf("proven after %d picks, with or without a reward", p.picksToPrevents)
	}
	if p.picksToHelps > 0 {
		helps = fmt.Sprintf("proven after %d picks with a reward", p.picksToHelps)
	}
	return fmt.Sprintf("The lesson %s prevents a tool error: %s.\nThe lesson raises the reward: %s.\n"+
		"A pick is a session for which precept chose the lesson.", demo.Pinned, prevents, helps)
}

func (d *fleetDemo) runSteps(ctx context.Context, srv *server.Server, dataURL, adminURL string) error {
	out := d.invocation.stdout
	fmt.Fprintf(
		out,
		"%d agents work on %d tickets. Their only setting for precept is OPENAI_BASE_URL=%s/v1\n",
		d.flags.agents, d.flags.sessions, dataURL,
	)
	fmt.Fprintf(out, "The dashboard shows how the lessons are measured: %s\n", admin.LoginLink(adminURL, srv.Token()))
	transport := &http.Transport{MaxIdleConnsPerHost: d.flags.agents}
	defer transport.CloseIdleConnections()
	fleet := &demo.Fleet{
		World: d.world, BaseURL: dataURL + "/v1", Agents: d.flags.agents, Sessions: d.flags.sessions,
		Client: &http.Client{Transport: transport},
	}
	if err := d.run(ctx, srv, fleet); err != nil {
		return err
	}
	if err := waitForClosedSessions(ctx, srv); err != nil {
		return err
	}
	r, err := srv.Report(ctx, admin.ReportQuery{Tenant: "default"})
	if err != nil {
		return err
	}
	d.proofs.update(r.Lessons)
	fmt.Fprintf(
		out, "\nTrue and measured effect per lesson (percentage points of success):\n\n%s\n%s\n",
		demoTable(d.world.Truths, r.Lessons, outputWidth(d.invocation.stdout)), d.model.Score().Summary(),
	)
	fmt.Fprintf(out, "\n%s\n", d.proofs.text())
	if stoppedAgents, calls := fleet.StoppedLoops(); stoppedAgents > 0 {
		fmt.Fprintf(
			out, "Loop warnings ended %s. The first agent that a warning stopped had made %s.\n",
			countNoun(stoppedAgents, "loop"), countNoun(calls, "identical call"),
		)
	}
	result := demoResult{Sessions: d.flags.sessions, PicksToPrevents: d.proofs.picksToPrevents, PicksToHelps: d.proofs.picksToHelps}
	score := d.model.Score()
	result.Success.With, result.Success.None, result.Success.Best = score.WithLessons, score.WithoutLessons, score.Best
	for _, l := range d.world.Truths {
		result.Lessons = append(result.Lessons, newDemoEffect(l.Slug, &l.Effect, reportRow(r.Lessons, l.Slug)))
	}
	return d.flags.writeResult(d.results, result)
}

// run plays all sessions. At the same time, it reads the report to count the picks until each proof.
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
			if r, err := srv.Report(ctx, admin.ReportQuery{Tenant: "default"}); err == nil {
				d.proofs.update(r.Lessons)
			}
		}
	}
}

func demoTable(truths []demo.Truth, rows []report.Row, columns int) string {
	const wide = 90
	var b strings.Builder
	line := func(lesson, truth, found, interval, sessions, verdict string) {
		fmt.Fprintf(&b, "%-26s %6s %6s  %-15s ", lesson, truth, found, interval)
		if columns >= wide {
			fmt.Fprintf(&b, "%12s ", sessions)
		}
		b.WriteString(" " + verdict + "\n")
	}
	line("lesson", "true", "found", "95% interval", "with/without", "verdict")
	widened := false
	for _, l := range truths {
		r := newDemoEffect(l.Slug, &l.Effect, reportRow(rows, l.Slug))
		found, interval := "-", "-"
		if r.Effect != nil && r.Lo != nil && r.Hi != nil {
			found, interval = formatPoints(*r.Effect), formatPoints(*r.Lo)+" to "+formatPoints(*r.Hi)
			claims := []report.Verdict{report.Helps, report.Harms, report.ProvenHelps, report.ProvenHarms}
			widened = widened || slices.Contains(claims, report.Verdict(r.Verdict)) && *r.Lo <= 0 && *r.Hi >= 0
		}
		line(l.Slug, formatPoints(l.Effect), found, interval, fmt.Sprintf("%d/%d", r.NInjected, r.NWithheld), r.Verdict)
	}
	if widened {
		b.WriteString("\nA verdict is final. After it, precept withholds only 5% of the picks, so the interval\n" +
			"can become wider again and include 0.\n")
	}
	return b.String()
}

func reportRow(rows []report.Row, slug string) *report.Row {
	i := slices.IndexFunc(rows, func(r report.Row) bool { return r.Slug == slug })
	if i < 0 {
		return nil
	}
	return &rows[i]
}

// demoResult is the output of `precept demo --json`.
type demoResult struct {
	Sessions int          `json:"sessions"`
	Lessons  []demoEffect `json:"lessons"`
	Success  struct {
		With float64 `json:"with_precept"`
		None float64 `json:"without_lessons"`
		Best float64 `json:"best_possible"` // with only the helpful lessons, all the time
	} `json:"success"`
	PicksToPrevents int64 `json:"picks_to_prevents"` // picks in closed sessions until the proof that a lesson prevents an error; 0 means no proof
	PicksToHelps    int64 `json:"picks_to_helps"`    // picks in rewarded sessions until the proof that the same lesson helps; 0 means no proof
}
