package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"precept/bandit/report"
	"precept/cmd/precept/history"
	"precept/cmd/precept/server"
	"precept/configs"
	"precept/learn"
)

type importFlags struct {
	tenant, agent string
	from          []string
	asJSON        bool
}

// importFunc imports the transcripts in r, and stamps the exchanges and samples with at. The function calls done after
// each transcript.
type importFunc func(ctx context.Context, r io.Reader, at time.Time, done func()) (learn.ImportResult, error)

func (inv *invocation) importCommand() *cobra.Command {
	var f importFlags
	c := &cobra.Command{
		Use:   "import FILE... | import --from CLIENT [FILE...]",
		Short: "Import past transcripts as samples",
		Long: "Import reads transcripts in the form of chat completions, responses or messages: " +
			"one JSON document, an array, or JSON lines {source, id, messages} or " +
			"{source, id, input}; the FILE \"-\" is standard input. A transcript may have an outcome: " +
			"\"reward\" from 0 to 1, or \"success\" true or false. " +
			"With --from, import reads a client's history on this machine (" + strings.Join(history.Names(), ", ") + "): " +
			"all the client's files, or only the given FILEs. " +
			"Each transcript becomes a session with exchanges and samples. precept redacts the texts, applies the configured opt-outs, and keeps the session out of every experiment. Importing a transcript again adds nothing, and a conversation that precept recorded itself is skipped. If a server uses the data directory, the server imports the transcripts. " +
			"Exit code 1: a line or a transcript could not be read; the error names the line, and " +
			"all others were imported. If a FILE cannot be opened, nothing is imported.",
		Example: "  precept import --from claude-code\n" +
			"  precept import --agent support transcripts.jsonl",
		Args: argsValidator(func(c *cobra.Command, files []string) error {
			if len(f.from) == 0 {
				return cobra.MinimumNArgs(1)(c, files)
			}
			return nil
		}),
	}
	c.Flags().StringVar(&f.tenant, "tenant", "default", "tenant of the imported sessions")
	c.Flags().StringVar(
		&f.agent, "agent", "", "agent name of the imported sessions (default: the transcript's source, otherwise import)",
	)
	c.Flags().StringSliceVar(&f.from, "from", nil, "read a client's history: "+strings.Join(history.Names(), ", "))
	addJSONFlag(c, &f.asJSON)
	return inv.withConfig(c, storeKeys(), func(c *cobra.Command, cfg *configs.Config, files []string) error {
		sources, err := inv.importSources(&f, files)
		if err != nil {
			return err
		}
		ctx := c.Context()
		s, err := openOffline(ctx, inv.tools, cfg, offlineOptions{create: true, sharesRedis: true})
		if errors.Is(err, errDataDirLocked) {
			importTranscripts, err := importOnline(cfg, &f)
			if err != nil {
				return err
			}
			sum, err := inv.importAll(ctx, importTranscripts, sources)
			return errors.Join(err, printImport(inv.stdout, inv.stderr, &f, sum))
		}
		if err != nil {
			return err
		}
		importer := &learn.Importer{
			Now: inv.tools.Now, LearningEnabled: cfg.Learning.Enabled, Sessions: s.backend, Openings: &learn.OpeningIndex{},
			Write: s.Store.Import, RedactImported: s.Store.RedactImported,
		}
		sum, err := inv.importAll(ctx, func(ctx context.Context, r io.Reader, at time.Time, done func()) (learn.ImportResult, error) {
			return importer.ImportAll(ctx, f.tenant, f.agent, r, at, done)
		}, sources)
		if err = errors.Join(err, s.stop()); err != nil {
			return err
		}
		return printImport(inv.stdout, inv.stderr, &f, sum)
	})
}

type importSource struct {
	path   string
	client *history.Client // nil if the file is in a format of detect.ReadTranscripts
}

// importSources opens each file before the import starts, so a mistyped name does not create a store.
func (inv *invocation) importSources(f *importFlags, files []string) (sources []importSource, err error) {
	if len(f.from) == 0 {
		if err := refuseRulesFiles(files); err != nil {
			return nil, err
		}
		for _, file := range files {
			in, err := openInput(inv.stdin, file)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			_ = in.Close() // importAll opens the file again
			sources = append(sources, importSource{path: file})
		}
		return sources, nil
	}
	if len(f.from) > 1 && len(files) > 0 {
		return nil, misuse(errors.New("all FILE arguments must belong to one client; write --from only once"))
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, fmt.Errorf("the home directory is unknown: %w", err)
	}
	workDir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	for _, name := range f.from {
		client, found, err := history.Find(name, history.Env{Home: home, WorkDir: workDir, Var: os.Getenv})
		if len(files) > 0 && client.Name != "" {
			found, err = files, nil
		}
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(inv.stderr, "precept: %s: %s\n", name, countNoun(len(found), "history file"))
		for _, path := range found {
			if _, err := os.Stat(path); err != nil {
				return nil, err
			}
			sources = append(sources, importSource{path, &client})
		}
	}
	return sources, nil
}

func (inv *invocation) importAll(ctx context.Context, importTranscripts importFunc, list []importSource) (learn.ImportResult, error) {
	sum := learn.ImportResult{Errors: []string{}}
	bar := newProgress(inv.stderr, inv.tools, "transcripts", 0)
	defer bar.end()
	for _, source := range list {
		in, at, skippedErr, err := source.open(inv.stdin, inv.tools)
		if err == nil {
			var part learn.ImportResult
			part, err = importTranscripts(ctx, in, at, func() { bar.add(1) })
			if source.client != nil && part.Transcripts == 0 {
				part.Errors = nil // a client's history file may contain no conversation
			}
			_ = in.Close()
			if skippedErr != nil {
				part.Errors = append(strings.Split(skippedErr.Error(), "\n"), part.Errors...)
			}
			for i := range part.Errors {
				part.Errors[i] = source.path + ": " + part.Errors[i]
			}
			sum.Add(part)
		}
		if err != nil {
			return sum, fmt.Errorf("%s: %w", source.path, err)
		}
	}
	return sum, nil
}

// open opens the transcripts. at is the file's modification time, so a second import produces the same samples.
// skippedErr describes the unreadable entries in a client's history.
func (s importSource) open(stdin io.Reader, tools server.Tools) (in io.ReadCloser, at time.Time, skippedErr, err error) {
	at = tools.Now()
	if info, err := os.Stat(s.path); s.path != "-" && err == nil {
		at = info.ModTime()
	}
	if s.client == nil {
		in, err = openInput(stdin, s.path)
		return in, at, nil, err
	}
	text, skippedErr, err := s.client.Open(s.path)
	return io.NopCloser(text), at, skippedErr, err
}

const maxImport = 256 << 20 // bytes

const importTimeout = 10 * time.Minute

// importOnline imports through the running server, because the server has locked the store.
func importOnline(cfg *configs.Config, f *importFlags) (importFunc, error) {
	client, err := runningServer(cfg)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, r io.Reader, at time.Time, done func()) (sum learn.ImportResult, err error) {
		var body bytes.Buffer
		n, err := body.ReadFrom(io.LimitReader(r, maxImport+1))
		if err == nil && n > maxImport {
			err = fmt.Errorf("the transcripts are larger than %d MiB, the limit of a running server; split the file, or stop the server", maxImport>>20)
		}
		if err != nil {
			return sum, err
		}
		if body.Len() == 0 {
			return sum, nil
		}
		ctx, cancel := context.WithTimeout(ctx, importTimeout)
		defer cancel()
		q := url.Values{"tenant": {f.tenant}, "agent": {f.agent}, "at": {at.UTC().Format(time.RFC3339Nano)}}
		err = client.do(ctx, http.MethodPost, "/api/import?"+q.Encode(), body.Bytes(), decodeJSON(&sum))
		if err != nil {
			return sum, err
		}
		for range sum.Transcripts {
			done()
		}
		return sum, nil
	}, nil
}

// printImport prints the result. If transcripts had faults, it returns an error with exit code 1.
func printImport(out, console io.Writer, f *importFlags, sum learn.ImportResult) error {
	if f.asJSON {
		if err := writeJSON(out, sum); err != nil {
			return err
		}
	} else {
		if sum.Transcripts == 0 {
			fmt.Fprintln(out, "no transcript was imported")
		} else {
			fmt.Fprintf(
				out, "%s: %s, %s (%d new)\n", countNoun(sum.Transcripts, "transcript"),
				countNoun(sum.Exchanges, "exchange"), countNoun(sum.Samples, "sample"), sum.NewSamples,
			)
		}
		if sum.Recorded > 0 {
			fmt.Fprintf(out, "skipped because precept recorded the conversation itself: %s\n", countNoun(sum.Recorded, "transcript"))
		}
		if sum.OptedOut > 0 {
			fmt.Fprintf(
				out, "skipped because of configured opt-outs: %s\n",
				countNoun(sum.OptedOut, "exchange"),
			)
		}
		for _, fault := range sum.Errors {
			fmt.Fprintln(console, "precept:", report.Printable(fault))
		}
	}
	return failedUnless(len(sum.Errors) == 0)
}
