package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"precept/admin"
	"precept/bandit/report"
	"precept/bandit/trial"
	"precept/cmd/precept/server"
	"precept/configs"
	"precept/inject/lesson"
	"precept/internal/guard"
	"precept/internal/label"
	"precept/learn"
	"precept/proxy"
)

type reportFlags struct {
	query  admin.ReportQuery
	window string
	asJSON bool
}

// parseWhatIf parses epsilon=NUMBER.
func (f *reportFlags) parseWhatIf(text string) error {
	number, ok := strings.CutPrefix(text, "epsilon=")
	e, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(e > 0 && e < 1) {
		return errors.New("write epsilon= and a number between 0 and 1, such as epsilon=0.1")
	}
	f.query.WhatIf = e
	return nil
}

func (inv *invocation) reportCommand() *cobra.Command {
	var f reportFlags
	c := &cobra.Command{
		Use:   "report [LESSON]",
		Short: "Show each lesson's effect, interval and verdict",
		Long: "Report asks the server that uses the data directory, because the server knows the newest sessions. If no " +
			"server is running, report reads the store.\n\nverdict: the conclusion that the data permit; " +
			"docs/EXPERIMENT.md lists the verdicts. effect: how much the lesson changes a session's reward, in " +
			"percentage points, with a 95% interval that is valid however often you read the report; a wide terminal " +
			"also shows a chart. sessions: the number of closed sessions with a reward in which the lesson was " +
			"inserted, and the number in which it was withheld at random. The first row compares sessions that may get " +
			"lessons with control sessions, which get none. A session is open until the age in reward.close_after; " +
			"--provisional includes open sessions. The indented lines below a row qualify the row. With LESSON, or " +
			"--explain LESSON, report shows how the lesson's row was computed.",
		Example: "  precept report --provisional --window 30d\n" +
			"  precept report pin-the-page",
		Args: argsValidator(cobra.MaximumNArgs(1)),
	}
	c.Flags().StringVar(&f.query.Tenant, "tenant", "default", "tenant to report on")
	c.Flags().StringVar(
		&f.window, "window", "", "count only sessions that began in the last 24h, 30d, and so on; default: all sessions",
	)
	c.Flags().BoolVar(
		&f.query.Provisional, "provisional", false, "include sessions that are still open",
	)
	c.Flags().Func("what-if", "estimate how much data a verdict would need with a different withheld share: epsilon=0.1", f.parseWhatIf)
	c.Flags().StringVar(
		&f.query.Explain, "explain", "", "show how this lesson's row was computed",
	)
	addJSONFlag(c, &f.asJSON)
	return inv.withConfig(c, append(storeKeys(), "lessons"), func(c *cobra.Command, cfg *configs.Config, args []string) error {
		if len(args) == 1 {
			if f.query.Explain != "" && f.query.Explain != args[0] {
				return misuse(fmt.Errorf("the argument names lesson %q, and --explain names %q; name one lesson", args[0], f.query.Explain))
			}
			f.query.Explain = args[0]
		}
		var err error
		if f.query.Window, err = admin.ParseWindow(f.window); err != nil {
			return misuse(fmt.Errorf("--window: %w", err))
		}
		r, err := findReport(c.Context(), inv.stderr, inv.tools, cfg, &f)
		if err != nil {
			return err
		}
		if f.query.Explain != "" {
			return explainRows(inv.stdout, r, &f)
		}
		if f.asJSON {
			return writeJSON(inv.stdout, r)
		}
		if r.Global.NTreated+r.Global.NControl+r.Flow.Closed == 0 && (r.Open == nil || r.Open.Sessions == 0 && !r.Open.IsLowerBound) {
			fmt.Fprintf(inv.stderr, "precept: the tenant %s has no closed and no open sessions; --tenant NAME shows another tenant\n", report.Printable(f.query.Tenant))
		}
		return r.Table(inv.stdout, outputWidth(inv.stdout))
	})
}

func explainRows(out io.Writer, r report.Report, f *reportFlags) error {
	slug := f.query.Explain
	r.Lessons = slices.DeleteFunc(r.Lessons, func(row report.Row) bool { return row.Slug != slug && trial.LessonSlug(row.Slug) != slug })
	if len(r.Lessons) == 0 {
		return missingLessonError(slug)
	}
	if f.asJSON {
		return writeJSON(out, r.Lessons)
	}
	return r.Explain(out, slug, outputWidth(out))
}

// findReport gets the report from the running server, which has newer data than the store, or else from the store. If
// the server refuses the request and no admin token is known, the store is read. Other error responses are returned.
func findReport(
	ctx context.Context, console io.Writer, tools server.Tools, cfg *configs.Config, f *reportFlags,
) (report.Report, error) {
	r, err := reportFromServer(ctx, cfg, f)
	statusErr, ok := errors.AsType[*statusError](err)
	if token, _ := adminToken(cfg); ok && statusErr.status == http.StatusUnauthorized && token == "" {
		fmt.Fprintln(console, "precept: no admin token is known, so the report is read from the store and may lack the newest sessions; set PRECEPT_ADMIN_TOKEN to ask the server")
		err = errNoServer
	}
	if errors.Is(err, errNoServer) {
		return readReport(ctx, console, tools, cfg, f.query)
	}
	return r, err
}

func reportFromServer(
	ctx context.Context, cfg *configs.Config, f *reportFlags,
) (report.Report, error) {
	var r report.Report
	q := url.Values{"tenant": {f.query.Tenant}, "window": {f.window}, "provisional": {
		strconv.FormatBool(f.query.Provisional),
	}}
	if f.query.Explain != "" {
		q.Set("explain", f.query.Explain)
	}
	if f.query.WhatIf > 0 {
		q.Set("what_if", strconv.FormatFloat(f.query.WhatIf, 'g', -1, 64))
	}
	err := askAdmin(ctx, cfg, "/api/report?"+q.Encode(), decodeJSON(&r))
	return r, err
}

func readReport(
	ctx context.Context, console io.Writer, tools server.Tools, cfg *configs.Config, q admin.ReportQuery,
) (report.Report, error) {
	db, err := tools.OpenUnfiltered(ctx, cfg)
	if err != nil {
		return report.Report{}, err
	}
	options := tools.LearnOptions(cfg, db)
	options.OnFailure = func(label.Step, error) {}
	options.Guard = guard.New(guard.Options{Now: tools.Now, OnFailure: options.OnFailure, OnPanic: func(label.Step, any) {}})
	learner, err := learn.Open(ctx, options)
	if err != nil {
		return report.Report{}, errors.Join(err, db.Close())
	}
	book, _, err := readBook(ctx, tools, cfg)
	if err != nil {
		book = lesson.NewBook(nil) // the report still has the measurements in the store
	}
	sections, err := tools.ReadRegistry(ctx, cfg)
	if err != nil {
		fmt.Fprintln(console, "precept:", report.Printable(err.Error()))
	}
	injectConfig := proxy.NewInjectConfig(cfg, "")
	r, err := learner.Report(ctx, learn.ReportQuery{
		Tenant: q.Tenant, Window: q.Window, Provisional: q.Provisional, WhatIf: q.WhatIf,
		Explain: q.Explain, Book: book, Rules: sections,
		Inject: injectConfig, Config: injectConfig.Bandit, Guardrails: cfg.Report.Guardrails,
	})
	if annotateErr := server.Annotate(ctx, &r, db, q.Tenant); annotateErr != nil && err == nil { // print the report without the annotations
		fmt.Fprintln(console, "precept:", report.Printable(annotateErr.Error()))
	}
	return r, errors.Join(err, db.Close())
}
