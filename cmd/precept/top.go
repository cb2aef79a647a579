package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	names "github.com/prometheus/common/model"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"precept/admin"
	"precept/bandit/report"
	"precept/cmd/precept/server"
	"precept/configs"
)

// reading is what a running server says of itself at one time: sums since its start.
type reading struct {
	At       time.Time     `json:"at"`
	Requests float64       `json:"requests"`
	Errors   float64       `json:"errors"` // answered with 5xx
	Sessions float64       `json:"sessions"`
	Injected float64       `json:"lessons_injected"`
	Withheld float64       `json:"lessons_withheld"`
	Loops    float64       `json:"loops"`
	Feedback float64       `json:"feedback"`
	Stored   float64       `json:"exchanges_stored"`
	Dropped  float64       `json:"dropped"`
	FailOpen float64       `json:"fail_open"`
	Pending  float64       `json:"pending"`
	Report   report.Report `json:"report"`

	PerSecond float64 `json:"requests_per_second"` // since the reading before; 0 in the first one
}

// top shows a running server, live.
func (w *world) top() *cobra.Command {
	var once, asJSON bool
	var tenant string
	c := &cobra.Command{
		Use:   "top",
		Short: "Watch a running precept: requests, sessions, lessons and what they gain",
		Long: "Top asks the server that runs on the data directory every two seconds and shows " +
			"its sums since its start. Control-C ends it.\n" +
			"Where standard output is no terminal, or with --once, it tells them once.",
		Args: arguments(cobra.NoArgs),
	}
	c.Flags().BoolVar(&once, "once", false, "tell it once")
	c.Flags().BoolVar(&asJSON, "json", false, "a line of JSON each time")
	c.Flags().StringVar(&tenant, "tenant", "default", "the tenant whose lessons are shown")
	return w.configured(c, []string{"data_dir", "admin.tokens"}, func(c *cobra.Command, cfg *configs.Config, _ []string) error {
		_, _, live := w.screen()
		once = once || !live && !asJSON
		var before reading
		return repeat(c.Context(), 2*time.Second, func(ctx context.Context) (over bool, err error) {
			now, err := w.read(ctx, cfg, tenant)
			if err != nil {
				return false, err
			}
			if s := now.At.Sub(before.At).Seconds(); !before.At.IsZero() && s > 0 {
				now.PerSecond = math.Max(0, now.Requests-before.Requests) / s
			}
			before = now
			if asJSON {
				return once, writeLine(w.out, now)
			}
			return once, w.draw(&now, once)
		})
	})
}

// repeat looks every so often until it is over, fails, or somebody has seen enough (control-C).
func repeat(
	ctx context.Context, every time.Duration, look func(context.Context) (over bool, err error),
) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	for {
		over, err := look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // somebody has seen enough
		case over || err != nil:
			return err
		case server.Pause(ctx, every) != nil:
			return nil //nolint:nilerr // as above
		}
	}
}

// read asks the server.
func (w *world) read(ctx context.Context, cfg *configs.Config, tenant string) (reading, error) {
	r := reading{At: w.Now()}
	var families map[string]*dto.MetricFamily
	err := w.askAdmin(ctx, cfg, "/metrics", func(in io.Reader) (err error) {
		p := expfmt.NewTextParser(names.UTF8Validation)
		families, err = p.TextToMetricFamilies(in)
		return err
	})
	if err != nil {
		return r, err
	}
	for name, into := range map[string]*float64{
		"precept_requests_total": &r.Requests, "precept_sessions_total": &r.Sessions,
		"precept_lessons_injected_total": &r.Injected,
		"precept_lessons_withheld_total": &r.Withheld, "precept_loops_total": &r.Loops,
		"precept_feedback_total": &r.Feedback,
		"precept_dropped_total":  &r.Dropped, "precept_fail_open_total": &r.FailOpen,
		"precept_recorder_pending": &r.Pending,
	} {
		*into = sum(families[name], "", "")
	}
	r.Errors = sum(families["precept_requests_total"], "code", "5xx")
	r.Stored = sum(families["precept_samples_total"], "outcome", "exchange_stored")
	r.Report, err = w.askServer(ctx, cfg, &reportFlags{query: admin.Query{Tenant: tenant}})
	return r, err
}

// sum adds the values of a metric, of those with a label's value where one is named.
func sum(f *dto.MetricFamily, label, value string) (out float64) {
	for _, m := range f.GetMetric() {
		is := func(l *dto.LabelPair) bool { return l.GetName() == label && l.GetValue() == value }
		if label == "" || slices.ContainsFunc(m.GetLabel(), is) {
			out += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return out
}

// screen is the size of the terminal that standard output is, 80 by 24 where it is none.
func (w *world) screen() (width, height int, live bool) {
	f, ok := w.out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) { //nolint:gosec // a descriptor is small
		return 80, 24, false
	}
	width, height, err := term.GetSize(int(f.Fd())) //nolint:gosec // as above
	if err != nil || width < 40 || height < 8 {
		return 80, 24, true
	}
	return width, height, true
}

// draw writes one reading over the one before.
func (w *world) draw(r *reading, once bool) error {
	width, height, live := w.screen()
	lines := r.lines(width)
	if live && !once {
		lines = lines[:min(len(lines), height-1)]
		_, err := fmt.Fprint(w.out, "\x1b[H\x1b[2J", strings.Join(lines, "\n"), "\n")
		return err
	}
	_, err := fmt.Fprintln(w.out, strings.Join(lines, "\n"))
	return err
}

// lines are what a reading says, none longer than the width.
func (r *reading) lines(width int) []string {
	g := &r.Report.Global
	out := []string{
		fmt.Sprintf("precept  %s  %.1f requests a second", r.At.Format(time.TimeOnly), r.PerSecond),
		fmt.Sprintf(
			"requests %.0f (%.0f with 5xx)  sessions %.0f  loops %.0f  feedback %.0f", r.Requests,
			r.Errors, r.Sessions, r.Loops, r.Feedback,
		),
		fmt.Sprintf(
			"lessons injected %.0f, withheld %.0f  exchanges stored %.0f, waiting %.0f, dropped %.0f",
			r.Injected, r.Withheld, r.Stored, r.Pending, r.Dropped,
		),
		fmt.Sprintf(
			"all lessons: %s points, %d sessions with, %d without", points(g.Effect, g.Lo, g.Hi),
			g.NTreated, g.NControl,
		),
	}
	if r.FailOpen > 0 {
		out = append(out, fmt.Sprintf(
			"steps of learning that failed: %.0f; see the log and precept doctor", r.FailOpen,
		))
	}
	out = append(append(out, ""), r.lessons(width)...)
	for i := range out {
		out[i] = fit(out[i], width)
	}
	return out
}

// lessons are a table of them, those first of which most is known. Names have what the other
// columns leave, which are as wide as they must be.
func (r *reading) lessons(width int) []string {
	if len(r.Report.Lessons) == 0 {
		return []string{"no lesson has matched yet"}
	}
	rows := slices.Clone(r.Report.Lessons)
	slices.SortStableFunc(rows, func(a, b report.Row) int { return cmp.Or(cmp.Compare(b.Told, a.Told), cmp.Compare(a.Slug, b.Slug)) })
	slugs, rest := []string{"LESSON"}, [][]string{{"VERDICT", "EFFECT (POINTS)", "WITH", "WITHOUT"}}
	for i := range rows {
		x := &rows[i]
		slugs, rest = append(slugs, x.Slug), append(rest, []string{
			string(x.Verdict), points(x.Effect, x.Lo, x.Hi),
			strconv.FormatInt(x.NInjected, 10), strconv.FormatInt(x.NWithheld, 10),
		})
	}
	out, widest := align(rest, len(rest[0])), 0
	for _, line := range out {
		widest = max(widest, wideness(line))
	}
	name := max(width-widest-2, 12)
	for i, line := range out {
		out[i] = fmt.Sprintf("%-*s  %s", name, fit(slugs[i], name), line)
	}
	return out
}

// points is an effect with its interval.
func points(effect, lo, hi *float64) string {
	if effect == nil || lo == nil || hi == nil {
		return "-"
	}
	return fmt.Sprintf("%+.1f (%+.1f to %+.1f)", 100**effect, 100**lo, 100**hi)
}

// fit cuts a text that is too long for its column.
func fit(s string, width int) string {
	s = report.Printable(s)
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:max(width-1, 0)]) + "…"
}
