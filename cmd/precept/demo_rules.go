package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"precept/admin"
	"precept/bandit/report"
	"precept/cmd/precept/demo"
	"precept/cmd/precept/server"
	"precept/configs"
	"precept/inject/rules"
)

const (
	rulesShare        = 0.5                   // --share of rules measure
	rulesMargin       = 0.05                  // --margin of rules propose
	sessionsPerPick   = 1.07                  // sessions for one pick; above 1, because control sessions have no picks
	minRoundSessions  = 40                    // minimum session count in a round
	extraSessions     = 50                    // sessions added to a round that has no verdict after verdictTimeout
	verdictTimeout    = 6 * time.Second       // maximum wait for a round's verdicts
	rulesPollInterval = 50 * time.Millisecond // between two reads of the registered sections
)

type rulesDemo struct {
	invocation      *invocation
	results         io.Writer
	cfg             *configs.Config
	flags           demoFlags
	world           *demo.Rules
	picksPerSection int64 // planned picks per section
	rounds          int   // a round measures rules.at_once sections
}

func (inv *invocation) runRules(ctx context.Context, f demoFlags) error {
	if f.sessions < 1 || f.agents < 1 {
		return misuse(errors.New("--sessions or --agents is less than 1; give 1 or more"))
	}
	world := demo.NewRules(f.seed)
	return withModel(ctx, "rules", f, world, world, nil, func(cfg *configs.Config) error {
		d := &rulesDemo{invocation: f.withTextOutput(inv), results: inv.stdout, cfg: cfg, flags: f, world: world}
		d.rounds = (len(world.Truths) + cfg.Rules.AtOnce - 1) / cfg.Rules.AtOnce
		d.picksPerSection = int64(max(float64(f.sessions)/float64(d.rounds), minRoundSessions) / sessionsPerPick)
		if err := d.register(ctx); err != nil {
			return err
		}
		return withServer(ctx, server.Options{Tools: inv.tools, Config: cfg, Console: inv.stderr}, f, d.invocation.stdout, d.runSteps)
	})
}

// register does the same as `precept rules measure`.
func (d *rulesDemo) register(ctx context.Context) error {
	path := filepath.Join(filepath.Dir(d.cfg.Lessons), demo.RulesName)
	if err := os.WriteFile(path, []byte(demo.RulesFile), 0o600); err != nil {
		return fmt.Errorf("write the demo's rules file: %w", err)
	}
	m := measureFlags{share: rulesShare, picks: d.picksPerSection}
	storage, closeStorage, err := d.invocation.tools.OpenRegistry(d.cfg)
	if err != nil {
		return err
	}
	defer closeStorage()
	answer, err := m.register(ctx, storage, d.cfg.Rules.AtOnce, demo.RulesName, demo.RulesFile, d.invocation.tools.Now())
	if err == nil && len(answer.Registered) != len(d.world.Truths) {
		err = fmt.Errorf("%d of %d sections were registered: this is a bug in precept; report the output", len(answer.Registered), len(d.world.Truths))
	}
	return err
}

func (d *rulesDemo) runSteps(ctx context.Context, srv *server.Server, dataURL, adminURL string) error {
	out := d.invocation.stdout
	fmt.Fprintf(out, "Agents send a %s with %d sections (%s) in every request.\nTheir only setting for precept is OPENAI_BASE_URL=%s/v1\n",
		demo.RulesName, len(d.world.Truths), countNoun(rules.Tokens(demo.RulesFile), "token"), dataURL)
	fmt.Fprintf(out, "Dashboard: %s\n\n", admin.LoginLink(adminURL, srv.Token()))
	fmt.Fprintf(out, "precept rules measure %s --picks %d: precept measures %d sections at a time, and withholds each at random.\n", demo.RulesName, d.picksPerSection, d.cfg.Rules.AtOnce)
	transport := &http.Transport{MaxIdleConnsPerHost: d.flags.agents}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	bar, lastDone := newProgress(d.invocation.stderr, d.invocation.tools, "sessions", int64(float64(d.picksPerSection)*sessionsPerPick)*int64(d.rounds)), int64(0)
	sessions := int(float64(d.picksPerSection)*sessionsPerPick) + 1
	for current := measuredSections(srv.Rules()); len(current) > 0; {
		if err := d.world.RunSessions(ctx, dataURL+"/v1", client, d.flags.agents, sessions); err != nil {
			bar.end()
			return err
		}
		bar.add(d.world.Done() - lastDone)
		lastDone, sessions = d.world.Done(), extraSessions
		next, err := d.waitForChange(ctx, srv, current)
		if err != nil {
			bar.end()
			return err
		}
		if !slices.Equal(next, current) {
			current, sessions = next, int(float64(d.picksPerSection)*sessionsPerPick)+1
		}
	}
	bar.end()
	r, err := srv.Report(ctx, admin.ReportQuery{Tenant: "default"})
	if err != nil {
		return err
	}
	judged := decideRemovals(demo.RulesName, demo.RulesFile, &r, rulesMargin, false)
	fmt.Fprintf(out, "\nTrue and measured effect per section after %d sessions (percentage points of success):\n\n%s\n", d.world.Done(), rulesTable(d.world.Truths, judged))
	fmt.Fprintf(out, "precept rules propose %s:\n\n", demo.RulesName)
	p := propose(demo.RulesName, demo.RulesFile, judged)
	if err := p.print(out); err != nil {
		return err
	}
	result := rulesResult{Sessions: d.world.Done(), Proposal: &p}
	for _, t := range d.world.Truths {
		var row *report.Row
		if i := slices.IndexFunc(judged, func(j removalDecision) bool { return j.section.Name == t.Section }); i >= 0 {
			row = judged[i].row
		}
		section := newDemoEffect(t.Section, &t.Effect, row)
		if row != nil {
			section.Effect, section.Lo, section.Hi = effectInterval(row)
		}
		result.Sections = append(result.Sections, section)
	}
	return d.flags.writeResult(d.results, result)
}

type rulesResult struct {
	Sessions int64        `json:"sessions"`
	Sections []demoEffect `json:"sections"`
	Proposal *proposal    `json:"proposal"`
}

// waitForChange waits until the server measures sections different from current, and returns them. If the server still
// measures current after verdictTimeout, the measurement needs more sessions, and waitForChange returns current.
func (d *rulesDemo) waitForChange(ctx context.Context, srv *server.Server, current []string) ([]string, error) {
	for end := d.invocation.tools.Now().Add(verdictTimeout); d.invocation.tools.Now().Before(end); {
		if next := measuredSections(srv.Rules()); !slices.Equal(next, current) {
			return next, nil
		}
		if err := server.Sleep(ctx, rulesPollInterval); err != nil {
			return nil, err
		}
	}
	return current, nil
}

func measuredSections(r *rules.Registry) (names []string) {
	for i := range r.Sections {
		if s := &r.Sections[i]; s.State == rules.Measuring {
			names = append(names, s.Section)
		}
	}
	return names
}

func rulesTable(truths []demo.SectionTruth, decisions []removalDecision) string {
	var b strings.Builder
	line := func(section, truth, found, interval, sessions, result string) {
		fmt.Fprintf(&b, "%-20s %5s %6s  %-14s %12s  %s\n", section, truth, found, interval, sessions, result)
	}
	line("section", "true", "found", "95% interval", "with/without", "result")
	for _, t := range truths {
		found, interval, sessions, result := "-", "-", "-", "kept"
		if i := slices.IndexFunc(decisions, func(j removalDecision) bool { return j.section.Name == t.Section }); i >= 0 && decisions[i].row != nil {
			r := decisions[i].row
			if e, lo, hi := effectInterval(r); e != nil {
				found, interval = formatPoints(*e), formatPoints(*lo)+" to "+formatPoints(*hi)
			}
			sessions = fmt.Sprintf("%d/%d", r.NInjected, r.NWithheld)
			result = resultText(r, decisions[i].rule)
		}
		line(t.Section, formatPoints(t.Effect), found, interval, sessions, result)
	}
	return b.String()
}

func resultText(r *report.Row, rule string) string {
	if short, _, ok := strings.Cut(rule, " ("); ok {
		return "removed: " + short
	}
	if rule != "" {
		return "removed: " + rule
	}
	return "kept: " + string(r.Verdict)
}
