package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"precept/detect"
	"precept/sample"
	"precept/session"
)

// exportFlags choose what export writes.
type exportFlags struct {
	format       string
	since, until string
	tenant       string
	lesson       string
	families     []string
	quality      []string
}

func exportFormats() []string { return []string{"mplp", "openai", "preference", "experiment"} }

func (w *world) export() *cobra.Command {
	var f exportFlags
	c := &cobra.Command{
		Use:   "export",
		Short: "Write what was learned as JSON lines to standard output",
		Long: "Export writes, a line each: mplp, the learning samples; openai, the conversations in the form of OpenAI's fine-tuning files; " +
			"preference, pairs of a better and a worse answer; experiment, every draw with its propensity and what came of it, from which the report can be computed again. It works beside a running server.",
		Args: arguments(cobra.NoArgs),
	}
	flags := addConfigFlags(c, storeKeys()...)
	c.Flags().StringVar(&f.format, "format", "mplp", strings.Join(exportFormats(), ", "))
	c.Flags().StringVar(&f.since, "since", "", "from this time on (2026-01-31, or RFC 3339)")
	c.Flags().StringVar(&f.until, "until", "", "before this time")
	c.Flags().StringVar(&f.tenant, "tenant", "", "of this tenant only")
	c.Flags().StringVar(&f.lesson, "lesson", "", "only where this lesson was injected (mplp), or drawn (experiment)")
	c.Flags().StringSliceVar(&f.families, "family", nil, "of these sample families only (mplp)")
	c.Flags().StringSliceVar(&f.quality, "quality", nil, "good, acceptable, poor or unrated only (mplp)")
	c.RunE = func(c *cobra.Command, _ []string) error { return w.runExport(c.Context(), flags, &f) }
	return c
}

func (w *world) runExport(ctx context.Context, flags *configFlags, f *exportFlags) error {
	filter, err := f.filter()
	if err != nil {
		return misuse(err)
	}
	cfg, err := flags.load(w, true)
	if err != nil {
		return err
	}
	e, err := w.openEvidence(ctx, cfg)
	if err != nil {
		return err
	}
	defer closeEvidence(e)
	x := sample.NewExporter(w.out)
	switch f.format {
	case "mplp":
		err = exportSamples(ctx, e, x, filter)
	case "experiment":
		err = exportTrials(ctx, e, x, filter)
	default:
		err = exportSessions(ctx, e, x, filter, f.format)
	}
	if err != nil {
		return err
	}
	return x.Flush()
}

// filter checks the flags.
func (f *exportFlags) filter() (*sample.Filter, error) {
	out := &sample.Filter{Quality: f.quality, Families: f.families, Tenant: f.tenant, Lesson: f.lesson}
	if !slices.Contains(exportFormats(), f.format) {
		return nil, fmt.Errorf("there is no format %q; there are %s", f.format, strings.Join(exportFormats(), ", "))
	}
	var err error
	if out.From, err = parseDay("since", f.since); err != nil {
		return nil, err
	}
	out.To, err = parseDay("until", f.until)
	return out, err
}

func parseDay(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("--%s: %q is no time; write 2026-01-31 or 2026-01-31T12:00:00Z", flag, text)
}

func exportSamples(ctx context.Context, e evidence, x *sample.Exporter, f *sample.Filter) error {
	return e.EachSample(ctx, f.Tenant, f.From, f.To, func(s session.StoredSample) error {
		if !f.Match(s.Tenant, &s.Sample) {
			return nil
		}
		return x.MPLP(&s.Sample)
	})
}

// exportSessions writes conversations or preference pairs.
func exportSessions(ctx context.Context, e evidence, x *sample.Exporter, f *sample.Filter, format string) error {
	return e.EachSession(ctx, f.Tenant, f.From, f.To, func(r session.Row, _ session.Applied) error {
		s, err := transcript(ctx, e, r)
		if err != nil || len(s.Exchanges) == 0 {
			return err
		}
		if format == "preference" {
			return x.Preferences(&s)
		}
		return x.Chat(&s)
	})
}

// transcript puts a session together from what is kept of it.
func transcript(ctx context.Context, e evidence, r session.Row) (sample.Session, error) {
	s := sample.Session{Tenant: r.Tenant, ID: r.ID.String(), Failing: func(tool, args, text string, isError int8) bool {
		return detect.Classify(tool, args, text, isError).Outcome == detect.Error
	}}
	var err error
	if s.Exchanges, err = e.Exchanges(ctx, r.Tenant, r.ID); err != nil || len(s.Exchanges) == 0 {
		return s, err
	}
	s.Agent, s.Name = s.Exchanges[0].Agent, s.Exchanges[0].SessionName
	entries, err := e.Feedback(ctx, r.Tenant, r.ID)
	if err != nil {
		return s, err
	}
	for _, f := range entries {
		s.Ratings = append(s.Ratings, sample.Rating{
			At: f.At, Source: f.Source, Type: f.Type, Score: f.Score, Label: f.Label, Comment: f.Comment,
			Correction: f.Correction, Details: f.Details, Turn: f.Turn,
		})
	}
	return s, nil
}

// exportTrials writes one line for every draw: what was picked in a session and how its coin fell, and for a control session
// every lesson that matched.
func exportTrials(ctx context.Context, e evidence, x *sample.Exporter, f *sample.Filter) error {
	return e.EachSession(ctx, f.Tenant, f.From, f.To, func(r session.Row, a session.Applied) error {
		record, err := session.Decode(r.ID, r.Data)
		if err != nil {
			return err
		}
		for _, t := range trials(r, a, record) {
			if f.Lesson != "" && t.Slug != f.Lesson {
				continue
			}
			if err := x.Experiment(&t); err != nil {
				return err
			}
		}
		return nil
	})
}

// trials are a session's draws. A session outside of the experiment has none.
func trials(r session.Row, a session.Applied, record *session.Record) []sample.Trial {
	as := &record.Assignment
	if as.Excluded || !as.Decided {
		return nil
	}
	base := sample.Trial{Session: r.ID.String(), Tenant: r.Tenant, Tier: a.Tier, Closed: r.Closed, At: r.Started.UTC().Format(time.RFC3339)}
	if a.Told {
		base.Outcome = &a.Reward
	}
	var out []sample.Trial
	if as.Control {
		for _, m := range as.Matched {
			t := base
			t.Arm, t.Slug, t.Assigned, t.Propensity = string(m.Arm), m.Arm.Slug(), "control", as.ControlP
			out = append(out, t)
		}
		return out
	}
	for i := range as.Picks {
		p, t := &as.Picks[i], base
		t.Arm, t.Slug = string(p.Arm), p.Slug
		t.Assigned, t.Propensity = "injected", p.Propensity
		if !p.Injected {
			t.Assigned, t.Propensity = "withheld", p.Eps*(1-as.ControlP)
		}
		out = append(out, t)
	}
	return out
}
