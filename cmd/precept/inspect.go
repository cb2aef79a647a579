package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"precept/bandit/report"
	"precept/detect"
)

func inspect(in io.Reader, out io.Writer) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "inspect FILE...",
		Short: "Find tool errors, loops and feedback in transcripts",
		Long: "Inspect reads transcripts in the form of chat completions, responses or messages: one " +
			"JSON document, an array of documents, or JSON lines {source, id, messages}. Inspect " +
			"prints the findings of precept in the transcripts. FILE - is standard input. Exit code " +
			"1: a line or a transcript is unreadable; the error names the line, and all other " +
			"findings are printed.",
		Args: arguments(cobra.MinimumNArgs(1)),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON line for each finding")
	c.RunE = func(_ *cobra.Command, files []string) error {
		emit := func(f detect.Finding) error { return printFinding(out, f) }
		if asJSON {
			emit = func(f detect.Finding) error { return writeLine(out, f) }
		}
		var faults []error
		for _, file := range files {
			if err := inspectFile(in, file, emit); err != nil {
				faults = append(faults, fmt.Errorf("%s: %s", file, strings.ReplaceAll(err.Error(), "\n", "\n"+file+": ")))
			}
		}
		return errors.Join(faults...)
	}
	return c
}

func inspectFile(stdin io.Reader, file string, emit func(detect.Finding) error) error {
	in, err := open(stdin, file)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // only read
	return detect.Inspect(in, emit)
}

// open opens a file for reading; - is standard input.
func open(stdin io.Reader, file string) (io.ReadCloser, error) {
	if file == "-" {
		return io.NopCloser(stdin), nil
	}
	in, err := os.Open(file)
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, e.Err // the caller adds the name
	}
	return in, err
}

// readText reads a file of at most most bytes; - is standard input.
func readText(stdin io.Reader, file string, most int64) ([]byte, error) {
	in, err := open(stdin, file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	defer in.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(in, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s has more than the %d bytes allowed", file, most)
	}
	return text, err
}

// printFinding prints the place, the kind and the rule of a finding.
func printFinding(out io.Writer, f detect.Finding) error {
	text := fmt.Sprintf("%s %s [%d] %s %s", f.Source, f.ID, f.Index, f.Kind, f.Label)
	if f.Tool != "" {
		text += " " + f.Tool
	}
	if f.Rule != "" {
		text += " (" + f.Rule + ")"
	}
	_, err := fmt.Fprintln(out, report.Printable(text))
	return err
}
