package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"precept/inject/ledger"
)

// ledgerFlags select the ledger file, which lists a project's failures (default: AGENT.md).
type ledgerFlags struct{ file string }

func (f *ledgerFlags) add(c *cobra.Command) {
	c.Flags().StringVar(
		&f.file, "ledger-file", "",
		"file for the entries (PRECEPT_LEDGER_FILE; default: AGENT.md in the working directory)",
	)
}

func (f *ledgerFlags) open(inv *invocation) *ledger.Ledger {
	return &ledger.Ledger{
		Path: cmp.Or(f.file, firstEnv(inv.env, "PRECEPT_LEDGER_FILE"), ledger.FileName), Now: inv.tools.Now,
	}
}

func (inv *invocation) recordCommand() *cobra.Command {
	var ledgerFlag ledgerFlags
	var e ledger.Entry
	var asJSON bool
	c := &cobra.Command{
		Use:   "record --intent-id ID --type lint|test|static-analysis --file F --error E --cause C --resolution R --rule L",
		Short: "Record a failure, and the rule that prevents it, in AGENT.md",
		Long: "Record appends one entry to the section \"" + ledger.Heading + "\" in AGENT.md. Record creates a missing file or section and keeps all other content. " +
			"A failure with the same file and error summary is recorded only once. With --json, record reads the entry from standard input and prints the result as JSON; " +
			"docs/contracts/record.schema.json describes both. If record cannot write to AGENT.md, record tries again after 100 ms, then writes the entry to " +
			".orchestration/agent_trace.jsonl and exits with 0, because the agent's work did not fail.",
		Example: `  precept record --intent-id ci-42 --type test --file cart_test.go --error "want 3, got 2" --cause "The total ignored the discount." --resolution "The total subtracts the discount." --rule "Test a total with a discount."`,
		Args:    argsValidator(cobra.NoArgs),
	}
	ledgerFlag.add(c)
	c.Flags().StringVar(&e.IntentID, "intent-id", "", "task id")
	c.Flags().StringVar(&e.Type, "type", "", "lint, test or static-analysis")
	c.Flags().StringVar(&e.File, "file", "", "failing file, relative to the project")
	c.Flags().StringVar(&e.Error, "error", "", "error message; only the first 500 characters are kept")
	c.Flags().StringVar(&e.Cause, "cause", "", "what caused the failure")
	c.Flags().StringVar(&e.Resolution, "resolution", "", "what corrected the failure")
	c.Flags().StringVar(&e.Rule, "rule", "", "rule that prevents the failure")
	c.Flags().BoolVar(&asJSON, "json", false, "read the entry from standard input, and print JSON")
	c.RunE = func(c *cobra.Command, _ []string) error {
		l := ledgerFlag.open(inv)
		if err := readEntry(inv.stdin, c, &e, asJSON); err != nil {
			if traceErr := l.TraceRefused(err); traceErr != nil {
				fmt.Fprintln(inv.stderr, "precept:", traceErr)
			}
			return misuse(err)
		}
		return recordEntry(c.Context(), inv.stdout, inv.stderr, l, e, asJSON)
	}
	return c
}

// readEntry checks the entry, which comes from the flags or, with --json, from standard input.
func readEntry(in io.Reader, c *cobra.Command, e *ledger.Entry, asJSON bool) error {
	if !asJSON {
		if err := e.Validate(); err != nil {
			return fmt.Errorf(
				"the entry was not recorded:\n%w\n`precept record --help` lists the flags", err,
			)
		}
		return nil
	}
	for _, name := range []string{
		"intent-id", "type", "file", "error", "cause", "resolution", "rule",
	} {
		if c.Flags().Changed(name) {
			return fmt.Errorf(
				"--json reads the whole entry from standard input; omit --%s, or omit --json", name,
			)
		}
	}
	entry, err := ledger.Decode(in)
	if err != nil {
		return fmt.Errorf("the entry was not recorded:\n%w", err)
	}
	*e = entry
	return nil
}

// recordEntry writes an entry to the ledger, or else to the trace file. If both writes fail, recordEntry prints an
// error and returns nil.
func recordEntry(
	ctx context.Context, out, console io.Writer, l *ledger.Ledger, e ledger.Entry, asJSON bool,
) error {
	results, traceErr, err := l.Record(ctx, e)
	if err != nil {
		return misuse(err)
	}
	if traceErr != nil && results[0].Status == ledger.Failed {
		fmt.Fprintln(console, "precept:", errors.Join(errors.New(results[0].Message), traceErr))
	}
	switch {
	case asJSON:
		return writeJSON(out, results[0])
	case results[0].Status == ledger.Recorded:
		_, err = fmt.Fprintln(out, "recorded in", l.Path)
	case results[0].Status == ledger.Duplicate:
		_, err = fmt.Fprintln(out, "already recorded in", l.Path)
	}
	return err
}
