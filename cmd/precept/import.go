package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"precept/bandit/report"
	"precept/cmd/precept/server"
	"precept/configs"
	"precept/detect"
	"precept/learn"
)

// importFlags name the tenant and the agent of the transcripts.
type importFlags struct {
	tenant, agent string
	asJSON        bool
}

// imported is the answer of import --json.
type imported struct {
	Transcripts int `json:"transcripts"`
	learn.Imported
	Faults []string `json:"faults"` // lines and transcripts that cannot be read; all others are imported
}

func (w *invocation) importVerb() *cobra.Command {
	var f importFlags
	c := &cobra.Command{
		Use:   "import FILE...",
		Short: "Import past transcripts as samples",
		Long: "Import reads transcripts in the form of chat completions, responses or messages: " +
			"one JSON document, an array of them, or JSON lines {source, id, messages} or " +
			"{source, id, input}; FILE - is standard input. " +
			"Each becomes a session with its exchanges and samples, redacted and with the " +
			"opt-outs of the configuration, outside of every experiment. The same transcript " +
			"twice is there once. " +
			"No server may run in the data directory meanwhile, unless the store is in Redis. " +
			"Exit code 1: a line or a transcript could not be read; the error names its line, and " +
			"all others were taken in. Of a file that cannot be opened nothing is taken in, nor of those beside it.",
		Args: arguments(cobra.MinimumNArgs(1)),
	}
	c.Flags().StringVar(&f.tenant, "tenant", "default", "tenant of the imported sessions")
	c.Flags().StringVar(
		&f.agent, "agent", "", "agent of the imported sessions; default: the transcript's source, or import",
	)
	addJSON(c, &f.asJSON)
	return w.configured(c, storeKeys(), func(c *cobra.Command, cfg *configs.Config, files []string) error {
		for _, file := range files { // a mistyped file name makes no store
			in, err := open(w.in, file)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			_ = in.Close() // importFile opens the file again
		}
		s, err := openOffline(c.Context(), w.tools, cfg, offlineUse{create: true, beside: true})
		if errors.Is(err, errServed) {
			return fmt.Errorf(
				"%w; import works while no server runs: stop it, import, and start it again", err,
			)
		}
		if err != nil {
			return err
		}
		into := &learn.Importer{
			Now: w.tools.Now, Learn: cfg.Learning.Enabled, Into: s.backend, Cleanse: s.Store.Cleanse,
		}
		sum, err := w.importAll(c.Context(), into, &f, files)
		if err = errors.Join(err, s.stop()); err != nil {
			return err
		}
		return printImport(w.out, w.err, &f, sum)
	})
}

// importAll imports files, one transcript after the other.
func (w *invocation) importAll(
	ctx context.Context, into *learn.Importer, f *importFlags, files []string,
) (imported, error) {
	sum := imported{Faults: []string{}}
	watch := newProgress(w.err, w.tools, "transcripts", 0)
	defer watch.end()
	for _, file := range files {
		fatal, err := importFile(w.in, w.tools, file, func(t detect.Transcript, at time.Time) error {
			got, err := into.Import(ctx, f.tenant, cmp.Or(f.agent, t.Source, "import"), t, at)
			if err != nil {
				return err
			}
			watch.add(1)
			sum.Transcripts++
			sum.Exchanges += got.Exchanges
			sum.Samples += got.Samples
			sum.Fresh += got.Fresh
			sum.OptedOut += got.OptedOut
			return nil
		})
		if fatal != nil {
			return sum, fmt.Errorf("%s: %w", file, fatal)
		}
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				sum.Faults = append(sum.Faults, file+": "+line)
			}
		}
	}
	return sum, nil
}

// importFile reads one file. fatal is an error of each; err names the transcripts that cannot be
// read.
func importFile(stdin io.Reader, tools server.Tools, file string, each func(detect.Transcript, time.Time) error) (fatal, err error) {
	in, err := open(stdin, file)
	if err != nil {
		return nil, err
	}
	defer in.Close() //nolint:errcheck // only read
	at := tools.Now()
	if f, ok := in.(*os.File); ok {
		info, err := f.Stat()
		if err != nil {
			return nil, err
		}
		at = info.ModTime() // the same file gives the same samples at any time
	}
	err = detect.Read(in, func(t detect.Transcript) error {
		fatal = each(t, at)
		return fatal
	})
	return fatal, err
}

// printImport prints the counts and the faults of an import.
func printImport(out, console io.Writer, f *importFlags, sum imported) error {
	if f.asJSON {
		if err := writeJSON(out, sum); err != nil {
			return err
		}
	} else {
		if sum.Transcripts == 0 {
			fmt.Fprintln(out, "no transcript was taken in")
		} else {
			fmt.Fprintf(
				out, "%s: %s, %s, %d of them new\n", amount(sum.Transcripts, "transcript"),
				amount(sum.Exchanges, "exchange"), amount(sum.Samples, "sample"), sum.Fresh,
			)
		}
		if sum.OptedOut > 0 {
			fmt.Fprintf(
				out, "left out, as the opt-outs of the configuration say: %s\n",
				amount(sum.OptedOut, "exchange"),
			)
		}
		for _, fault := range sum.Faults {
			fmt.Fprintln(console, "precept:", report.Printable(fault))
		}
	}
	return exit(len(sum.Faults) == 0)
}
