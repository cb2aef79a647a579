package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"precept/bandit/report"
	"precept/cmd/precept/server"
	"precept/configs"
	"precept/distill"
	"precept/internal/sample"
	"precept/store/sqlite"
)

type distillFlags struct {
	once, follow bool
	judge, model string
	since        string
	tenant       string
	dryRun       bool
	setAside     bool
	asJSON       bool
	printPrompts string
}

func (inv *invocation) distillCommand() *cobra.Command {
	var f distillFlags
	c := &cobra.Command{
		Use:   "distill",
		Short: "Propose lessons from past sessions",
		Long: "Distill reads the sessions that are new or have changed since the last run, and proposes lessons. The " +
			"proposals come from a fixed set of rules, or from a model behind an OpenAI-compatible API (--judge). The " +
			"rules look for a failed call that was followed by a successful one, and for corrections by people. A " +
			"proposed lesson waits for approval (`precept lessons list --state quarantined`) or, with distill.gate: " +
			"auto, starts a trial.\n\nDistill can run at the same time as " +
			"a server, but only one distiller at a time reads a tenant's sessions. Exit code 1: the store, the lessons " +
			"or the judge cannot be reached, or another distiller is reading the sessions.",
		Args: argsValidator(cobra.NoArgs),
	}
	shown := append(
		storeKeys(), "lessons", "distill.gate", "distill.parallel", "distill.max_tokens",
		"distill.max_cost", "distill.prompts", "distill.api_key", "distill.every",
	)
	flags := inv.addConfigFlags(c, shown...)
	c.Flags().BoolVar(&f.once, "once", false, "read the new sessions and exit (default)")
	c.Flags().BoolVar(
		&f.follow, "follow", false,
		"keep running, and read newly closed sessions at the interval distill.every",
	)
	c.Flags().StringVar(
		&f.judge, "judge", "", "rules, or the base URL of an OpenAI-compatible API (distill.judge)",
	)
	c.Flags().StringVar(&f.model, "model", "", "judge model (distill.model)")
	c.Flags().StringVar(
		&f.since, "since", "",
		"only sessions that began at or after this time (a date such as 2026-01-31, or RFC 3339)",
	)
	c.Flags().StringVar(&f.tenant, "tenant", "", "only this tenant's sessions")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "print the proposals and write nothing")
	c.Flags().BoolVar(
		&f.setAside, "set-aside", false,
		"also ask the judge again about sessions that are set aside (it refused them, or gave three unusable answers)",
	)
	addJSONFlag(c, &f.asJSON)
	c.Flags().StringVar(
		&f.printPrompts, "print-prompts", "",
		"write the judge's prompts into this directory for editing (distill.prompts), and exit",
	)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if f.printPrompts != "" {
			if err := distill.WritePrompts(f.printPrompts); err != nil {
				return err
			}
			_, err := fmt.Fprintf(
				inv.stdout, "wrote the prompts to %s; existing files were not changed\n",
				f.printPrompts,
			)
			return err
		}
		cfg, err := flags.load(inv)
		if err != nil {
			return err
		}
		return inv.runDistill(c.Context(), cfg, flags, &f)
	}
	return c
}

func (f *distillFlags) override(cfg *configs.Config) error {
	if f.judge != "" {
		cfg.Distill.Judge = f.judge
	}
	if f.model != "" {
		cfg.Distill.Model = f.model
	}
	switch {
	case cfg.Distill.Judge == "rules" && f.model != "":
		return misuse(errors.New("--model needs an API as the judge, but the judge is rules; add --judge URL"))
	case cfg.Distill.Judge != "rules" && !strings.HasPrefix(cfg.Distill.Judge, "http://") && !strings.HasPrefix(cfg.Distill.Judge, "https://"):
		return misuse(fmt.Errorf(
			"--judge %q is neither rules nor a URL; write rules, or a URL such as http://127.0.0.1:11434/v1",
			cfg.Distill.Judge,
		))
	case cfg.Distill.Judge != "rules" && cfg.Distill.Model == "":
		return misuse(errors.New("the judge is an API, and the name of the model is missing; add --model"))
	case f.follow && f.once:
		return misuse(errors.New("--once and --follow cannot be combined; omit one"))
	case f.follow && f.setAside:
		return misuse(errors.New("--set-aside and --follow cannot be combined; omit --follow"))
	case f.follow && f.dryRun:
		return misuse(errors.New("--dry-run and --follow cannot be combined; omit --follow"))
	}
	return nil
}

func (inv *invocation) runDistill(ctx context.Context, cfg *configs.Config, flags *configFlags, f *distillFlags) error {
	if err := f.override(cfg); err != nil {
		return err
	}
	since, err := parseTimeFlag("since", f.since)
	if err != nil {
		return err
	}
	optOut, err := flags.optOutReader(inv, cfg)
	if err != nil {
		return err
	}
	d, closeStore, err := openDistiller(ctx, inv.tools, cfg, optOut, f.dryRun)
	if err != nil {
		return err
	}
	defer closeStore()
	d.Options.Select.Tenant, d.Options.Select.Since, d.Options.DryRun, d.Options.Select.ClosedOnly = f.tenant, since, f.dryRun, f.follow
	d.Options.Select.IncludeSetAside = f.setAside
	d.Options.OnFailure = func(session string, err error) {
		fmt.Fprintln(inv.stderr, "precept:", report.Printable("session "+session+": "+err.Error()))
	}
	if f.follow {
		ctx, stop := signalContext(ctx)
		defer stop()
		return d.Follow(ctx, cfg.Distill.Every, func(s distill.Summary, err error) {
			if err != nil {
				fmt.Fprintln(inv.stderr, "precept:", err)
			}
			if s.Judged+s.Proposed+s.Merged > 0 {
				_ = printDistill(inv.stdout, &s, f)
			}
		})
	}
	bar := newProgress(inv.stderr, inv.tools, "sessions", 0)
	d.Options.Progress = func(n int) { bar.add(int64(n)) }
	sum, err := d.Once(ctx)
	bar.end()
	if err != nil && sum.Read == 0 {
		return err
	}
	if err := errors.Join(err, printDistill(inv.stdout, &sum, f)); err != nil {
		return err
	}
	if len(sum.Busy) > 0 {
		remedy := "try again when the other distiller has finished"
		if server.IsRedis(cfg.StoreURL()) {
			remedy += "; after a crash, this takes up to two minutes"
		}
		return fmt.Errorf("another distiller is reading the new sessions (tenant %s); %s", report.Printable(strings.Join(sum.Busy, ", ")), remedy)
	}
	return nil
}

func printDistill(out io.Writer, s *distill.Summary, f *distillFlags) error {
	if f.asJSON {
		return writeJSON(out, s)
	}
	for i := range s.Drafts {
		d := &s.Drafts[i]
		fmt.Fprintf(
			out, "%-11s %s\n            %s\n", d.State, report.Printable(d.Slug),
			report.Printable(d.Title),
		)
		for _, a := range d.Advice {
			fmt.Fprintf(out, "            | %s\n", report.Printable(a))
		}
		if d.Reason != "" {
			fmt.Fprintf(out, "            %s\n", report.Printable(d.Reason))
		}
		if d.Contradicts != "" {
			fmt.Fprintf(
				out, "            contradicts %s; both lessons are kept\n",
				report.Printable(d.Contradicts),
			)
		}
	}
	if s.SetAside > 0 {
		fmt.Fprintf(out, "  set aside %s until the content changes, because the judge refused the content or gave three unusable answers; `precept distill --set-aside` asks again\n", countNoun(s.SetAside, "session"))
	}
	if s.Read == s.Unchanged {
		_, err := fmt.Fprintf(out, "read %s, none new\n", countNoun(s.Read, "session"))
		return err
	}
	fmt.Fprintf(out, "read %s, %d new; judged %d, %d failed; %s: %d proposed, %d merged into existing lessons, %d refused\n",
		countNoun(s.Read, "session"), s.Read-s.Unchanged, s.Judged, s.Failed, countNoun(s.Candidates, "candidate"), s.Proposed, s.Merged, server.SumCounts(s.Refused))
	if s.Untroubled > 0 {
		fmt.Fprintf(out, "  %s without signs of trouble: the judge was not asked about them\n", countNoun(s.Untroubled, "session"))
	}
	for _, reason := range slices.Sorted(maps.Keys(s.Refused)) {
		fmt.Fprintf(out, "  refused %d: %s\n", s.Refused[reason], report.Printable(reason))
	}
	for i := range s.Waiting {
		fmt.Fprintf(out, "  %s waits for a person: %s\n", report.Printable(s.Waiting[i].Slug), report.Printable(s.Waiting[i].Reason))
	}
	for i := range s.NotProposed {
		n := &s.NotProposed[i]
		fmt.Fprintf(out, "  not proposed: %s; the failure was resolved in %s of the sessions that followed the advice, and in %s of the others\n", report.Printable(n.Slug), n.Followed, n.NotFollowed)
	}
	if s.RemovedCases > 0 {
		fmt.Fprintf(out, "  removed the counts of the %s not seen for the longest time: precept counts at most %d failures per tenant\n", countNoun(s.RemovedCases, "failure"), distill.MaxCases)
	}
	if s.Opinions > 0 {
		fmt.Fprintf(out, "recorded %s from the judge on injected lessons\n", countNoun(s.Opinions, "opinion"))
	}
	if s.Tokens > 0 {
		fmt.Fprintf(
			out, "the judge used %s, which cost %.4f at the configured prices\n", countNoun(s.Tokens, "token"),
			s.Cost,
		)
	}
	if s.Stopped != "" {
		fmt.Fprintln(out, "stopped early:", s.Stopped)
	}
	if s.Proposed > 0 && !f.dryRun {
		fmt.Fprintln(
			out,
			"`precept lessons list --state quarantined` lists the lessons that wait for approval; `precept lessons approve SLUG` activates one",
		)
	}
	return nil
}

// judgeWaitReport returns a function that prints each wait for the judge, the model that rates sessions. Among
// concurrent waits, only the first is printed.
func judgeWaitReport(console io.Writer, now func() time.Time) func(error, time.Duration) {
	var mu sync.Mutex
	var end time.Time // when the printed wait ends
	return func(err error, d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		at := now()
		if at.Before(end) {
			return
		}
		end = at.Add(d)
		fmt.Fprintf(console, "precept: %s; the next attempt is in %.1f s\n", report.Printable(err.Error()), d.Seconds())
	}
}

func signalContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
}

// openDistiller opens a distiller. A server can run at the same time, because only one distiller at a time works on a
// tenant.
func openDistiller(ctx context.Context, tools server.Tools, cfg *configs.Config, optOut func() *sample.OptOut, dryRun bool) (*server.Distiller, func(), error) {
	if err := checkStoreExists(cfg); err != nil {
		return nil, nil, err
	}
	st, err := tools.OpenStore(ctx, cfg, sqlite.Options{ReadOnly: dryRun, BusyTimeout: 10 * time.Second})
	if err != nil {
		return nil, nil, err
	}
	storage, closeBank, err := tools.OpenStorage(cfg)
	if err != nil {
		return nil, nil, errors.Join(err, st.Close())
	}
	d, err := tools.NewDistiller(cfg, st, optOut, storage) //nolint:contextcheck // the check of a lesson's evidence has no context; its look-up in the store has a time limit
	if err != nil {
		closeBank()
		return nil, nil, errors.Join(err, st.Close())
	}
	return d, func() {
		closeBank()
		_ = st.Close() // the notes are written, so an error loses no data
	}, nil
}
