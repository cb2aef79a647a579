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

func inspectCommand(in io.Reader, out io.Writer) *cobra.Command {
	var asJSON bool
	var number int
	c := &cobra.Command{
		Use:   "inspect FILE...",
		Short: "Find tool errors, loops and feedback in transcripts",
		Long: "Inspect reads transcripts in the form of chat completions, responses or messages: one JSON document, an " +
			"array, or JSON lines {source, id, messages}. Inspect prints the tool errors, loops and feedback that precept finds. FILE - " +
			"is standard input. Exit code 1: a line or a transcript is unreadable; the error names the line, and all " +
			"other findings are printed. --explain N prints the reason for finding N: the rule, the deciding text and " +
			"the text's position. Findings are counted from 1, over all files, in output order.",
		Args: argsValidator(cobra.MinimumNArgs(1)),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON line for each finding")
	c.Flags().IntVar(&number, "explain", 0, "print only the reason for the finding with this number")
	c.RunE = func(c *cobra.Command, files []string) error {
		defer keepHeapSmall(os.LookupEnv)()
		if c.Flags().Changed("explain") {
			return explainFinding(in, out, files, number, asJSON)
		}
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
	in, err := openTranscript(stdin, file)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // nothing was written
	return detect.Inspect(in, emit)
}

// explainFinding explains one finding; number counts from 1 over all files.
func explainFinding(stdin io.Reader, out io.Writer, files []string, number int, asJSON bool) error {
	earlier := 0
	var faults []error
	for _, file := range files {
		in, err := openTranscript(stdin, file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		explanation, count, err := detect.Explain(in, number-earlier)
		_ = in.Close()
		if explanation != nil {
			if asJSON {
				return writeLine(out, explanation)
			}
			return printExplanation(out, number, explanation)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %s", file, strings.ReplaceAll(err.Error(), "\n", "\n"+file+": ")))
		}
		earlier += count
	}
	missing := fmt.Errorf("finding %d does not exist: the input has no findings", number)
	if earlier > 0 {
		missing = fmt.Errorf("finding %d does not exist: the input has %s; choose a number from 1 to %d", number, countNoun(earlier, "finding"), earlier)
	}
	return errors.Join(append(faults, missing)...)
}

func printExplanation(out io.Writer, number int, explanation *detect.Explanation) error {
	f, rule := explanation.Finding, explanation.Rule
	if rule == "" {
		rule = "(none)"
	}
	text := fmt.Sprintf("finding  %d: %s %s [%d] %s %s\nrule     %s: %s\ntext     %s\nposition item %d, line %d, byte %d\n",
		number, f.Source, f.ID, f.Index, f.Kind, f.Label, rule, explanation.Meaning, explanation.Text, f.Index, explanation.Line, explanation.Byte)
	if explanation.Tool != "" {
		text += fmt.Sprintf("call     %s %s\n", explanation.Tool, explanation.Args)
	}
	if explanation.EarlierItem != nil {
		text += fmt.Sprintf("before   the earlier result is in item %d\n", *explanation.EarlierItem)
	}
	for line := range strings.Lines(text) {
		if _, err := fmt.Fprintln(out, report.Printable(strings.TrimRight(line, "\n"))); err != nil {
			return err
		}
	}
	return nil
}

// openInput opens a file, or standard input for the name -.
func openInput(stdin io.Reader, file string) (io.ReadCloser, error) {
	if file == "-" {
		return io.NopCloser(stdin), nil
	}
	in, err := os.Open(file)
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, e.Err // the caller adds the name of the file
	}
	return in, err
}

// openTranscript opens a file. If the file does not exist, the argument may be the name of a session.
func openTranscript(stdin io.Reader, file string) (io.ReadCloser, error) {
	in, err := openInput(stdin, file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w; name a transcript file, or use `precept watch --once SESSION` for a stored session", err)
	}
	return in, err
}

func readText(stdin io.Reader, file string, limit int64) ([]byte, error) {
	in, err := openInput(stdin, file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	defer in.Close() //nolint:errcheck // nothing was written
	text, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s is larger than the limit of %d bytes", file, limit)
	}
	return text, err
}

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
