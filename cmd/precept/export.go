package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"precept/admin"
	"precept/cmd/precept/server"
	"precept/configs"
	"precept/internal/file"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/learn"
)

type exportFlags struct {
	format       string
	since, until string
	tenant       string
	lesson       string
	session      string
	families     []string
	quality      []string
	output       string
	stats        bool
	asJSON       bool
	lake         lakeFlags
}

func (inv *invocation) exportCommand() *cobra.Command {
	var f exportFlags
	c := &cobra.Command{
		Use:   "export",
		Short: "Write samples, conversations or experiment data to standard output",
		Long: "Export writes JSON lines, or a Parquet file. The formats are mplp (the learning samples), openai (the " +
			"conversations in OpenAI's fine-tuning format), preference (pairs with a better and a worse answer), " +
			"experiment (each random decision to inject or to withhold a lesson, with the probability and the outcome, " +
			"which is enough to recompute the report) and parquet (the samples as a Parquet file). --stats prints the " +
			"selected samples' ratings instead. A sample without a rating has feedback.details.rated false, and a " +
			"meta.quality_score that depends only on the answer: 0.5 if the answer is complete. " +
			"Export can run at the same time as a server.\n\n--follow with --format parquet and --output DIR or " +
			"s3://BUCKET/PREFIX keeps running: each new sample is written once into Parquet files that are partitioned " +
			"by date and tenant. S3 credentials come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) " +
			"or ~/.aws.",
		Example: "  precept export --quality good --output samples.jsonl\n" +
			"  precept export --format openai --session ci-42\n" +
			"  precept export --format parquet --follow --output lake",
		Args: argsValidator(cobra.NoArgs),
	}
	c.Flags().StringVar(&f.format, "format", "mplp", "format: "+strings.Join(admin.ExportFormats(), ", "))
	c.Flags().StringVar(&f.since, "since", "", "only data at or after this time (a date such as 2026-01-31, or RFC 3339)")
	c.Flags().StringVar(&f.until, "until", "", "only data before this time")
	c.Flags().StringVar(&f.tenant, "tenant", "", "only this tenant's data")
	c.Flags().StringVar(
		&f.lesson, "lesson", "", "only sessions in which this lesson was injected; with --format experiment: injected or "+
			"withheld",
	)
	c.Flags().StringVar(&f.session, "session", "", "only this session: name, id, or the id of a request in the session")
	c.Flags().StringSliceVar(
		&f.families, "family", nil,
		"only samples in these families ("+strings.Join(admin.Families(), ", ")+"), or sessions with such a sample "+
			"(not with --format experiment)",
	)
	c.Flags().StringSliceVar(
		&f.quality, "quality", nil,
		"only good, acceptable, poor or unrated samples, or sessions with such a sample (not with "+
			"--format experiment)",
	)
	c.Flags().StringVarP(
		&f.output, "output", "o", "", "write to this file instead of standard output; with --follow a directory or s3://BUCKET/PREFIX",
	)
	c.Flags().BoolVar(
		&f.stats, "stats", false,
		"print the sample count and ratings as JSON",
	)
	c.Flags().BoolVar(&f.asJSON, "json", false, "with --output: print the file, the format and the record count as JSON")
	f.lake.add(c)
	flags := inv.addConfigFlags(c, storeKeys()...)
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := flags.load(inv)
		if err != nil {
			return err
		}
		if f.lake.follow {
			return inv.followExport(c.Context(), cfg, flags, &f)
		}
		if name := f.lake.givenFlag(c); name != "" {
			return misuse(fmt.Errorf("--%s needs --follow; add --follow, or omit --%s", name, name))
		}
		return inv.runExport(c.Context(), cfg, &f)
	}
	return c
}

func (inv *invocation) runExport(ctx context.Context, cfg *configs.Config, f *exportFlags) error {
	filter, err := f.filter()
	if err != nil {
		return misuse(err)
	}
	if f.format == "parquet" && !f.stats && f.output == "" && isTerminal(inv.stdout) {
		return misuse(errors.New(
			"a Parquet file cannot be printed on a terminal; name a file with --output, or redirect the output",
		))
	}
	reader, err := inv.tools.OpenFiltered(ctx, cfg)
	if err != nil {
		return err
	}
	defer reader.Close() //nolint:errcheck // nothing was written
	job := &server.ExportJob{StoreReader: reader, Filter: filter, Session: f.session, Out: inv.stdout}
	if open, err := learn.CountOpen(ctx, reader, f.tenant, server.CloseAfter(cfg), inv.tools.Now()); err == nil && open != nil {
		fmt.Fprintf(inv.stderr, "precept: %s %s\n", open, f.openSessionsNote())
	}
	if f.output == "" {
		err = writeExport(ctx, inv.stderr, inv.tools, job, f)
	} else {
		err = file.Replace(f.output, 0o600, func(out io.Writer) error {
			job.Out = out
			return writeExport(ctx, inv.stderr, inv.tools, job, f)
		})
	}
	if err != nil {
		return err
	}
	explainEmptyExport(inv.stderr, job, f)
	if f.output == "" || !f.asJSON {
		return nil
	}
	if f.stats {
		return writeJSON(inv.stdout, exportResult{f.output, "stats", 1})
	}
	return writeJSON(inv.stdout, exportResult{f.output, f.format, job.Records})
}

type exportResult struct {
	Output  string `json:"output"`
	Format  string `json:"format"`
	Records int    `json:"records"` // JSON lines, or Parquet rows
}

func (f *exportFlags) openSessionsNote() string {
	switch {
	case f.stats || f.format == "mplp" || f.format == "parquet":
		return "The export contains no samples from open sessions."
	case f.format == "experiment":
		return "The export contains the random assignments of open sessions, without a reward."
	}
	return "The export contains open sessions with their current feedback."
}

func (f *exportFlags) filter() (*sample.Filter, error) {
	out := &sample.Filter{
		Quality: f.quality, Families: f.families, Tenant: f.tenant, Lesson: f.lesson,
	}
	if !slices.Contains(admin.ExportFormats(), f.format) {
		return nil, fmt.Errorf("--format: %q is unknown; use one of %s", f.format, strings.Join(
			admin.ExportFormats(), ", ",
		))
	}
	for _, list := range []struct {
		flag          string
		chosen, known []string
	}{
		{"quality", f.quality, admin.Qualities()}, {"family", f.families, admin.Families()},
	} {
		for _, word := range list.chosen {
			if !slices.Contains(list.known, word) {
				return nil, fmt.Errorf(
					"--%s: %q is unknown; use one of %s", list.flag, word, strings.Join(list.known, ", "),
				)
			}
		}
	}
	if f.format == "experiment" && !f.stats && len(f.families)+len(f.quality) > 0 {
		return nil, errors.New(
			"--format experiment does not support --family and --quality; omit both flags",
		)
	}
	var err error
	if out.From, err = parseTimeFlag("since", f.since); err != nil {
		return nil, err
	}
	out.To, err = parseTimeFlag("until", f.until)
	return out, err
}

func parseTimeFlag(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, misuse(fmt.Errorf(
		"--%s: %q is not a time; write 2026-01-31 or 2026-01-31T12:00:00Z", flag, text,
	))
}

func writeExport(ctx context.Context, console io.Writer, tools server.Tools, job *server.ExportJob, f *exportFlags) error {
	counts, err := job.Stats(ctx)
	if err != nil {
		return err
	}
	unit := "samples"
	if !f.stats && f.format != "mplp" && f.format != "parquet" {
		unit = "sessions"
	}
	bar := newProgress(console, tools, unit, counts[unit])
	job.OnRead = func() { bar.add(1) }
	defer bar.end()
	if f.stats {
		return exportStats(ctx, job)
	}
	return job.Write(ctx, f.format)
}

// explainEmptyExport prints why no record was exported.
func explainEmptyExport(console io.Writer, job *server.ExportJob, f *exportFlags) {
	if f.stats || job.Records > 0 {
		return
	}
	if f.format != "preference" {
		fmt.Fprintln(console, "precept: the export is empty: no stored data matches the flags; `precept export --help` lists the flags, and `precept doctor` counts the stored samples and sessions")
		return
	}
	fmt.Fprintf(
		console, "precept: the export is empty: of %s, %d had feedback from a person, and %d of these had a correction or a rejection; "+
			"a preference pair needs a correction, or a rejected and an approved answer to the same user words\n",
		countNoun(job.Pairs.Sessions, "session"), job.Pairs.Rated, job.Pairs.Pairable,
	)
}

// ratings is the output of export --stats. The rates are shares of the rated samples, or null if there are none.
type ratings struct {
	sample.Quality
	Approval   *float64 `json:"approval_rate"`
	Correction *float64 `json:"correction_rate"`
	Rejection  *float64 `json:"rejection_rate"`
	MeanScore  *float64 `json:"mean_score"`
}

func exportStats(ctx context.Context, job *server.ExportJob) error {
	var r ratings
	if err := job.Samples(ctx, func(s *session.StoredSample) error { r.Add(&s.Sample); return nil }); err != nil {
		return err
	}
	if rates := r.Rates(); rates.OK {
		r.Approval, r.Correction, r.Rejection, r.MeanScore = &rates.Approval, &rates.Correction, &rates.Rejection, &rates.MeanScore
	}
	return writeJSON(job.Out, r)
}
