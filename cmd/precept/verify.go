package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"precept/inject/ledger"
	"precept/internal/shell"
)

const (
	maxOutput   = 16 << 20 // output bytes searched for failures, half of them at each end
	maxFailures = 1000     // recorded failures per command
)

type verifyResult struct {
	Command  []string         `json:"command"`
	ExitCode int              `json:"exit_code"`
	Failures []ledger.Failure `json:"failures"`
	Results  []ledger.Result  `json:"results"` // results of recording, in the order of Failures; empty if nothing was recorded
}

func (inv *invocation) newVerifyCommand() *cobra.Command {
	var ledgerFlag ledgerFlags
	var intent string
	var asJSON, dryRun bool
	c := &cobra.Command{
		Use:   "verify [flags] -- COMMAND ...",
		Short: "Run a linter or a test, and record the failures in AGENT.md",
		Long: "Verify runs a command and passes its output through. If the command fails, each distinct " +
			"failure becomes an entry in AGENT.md. Verify reads the output of go test, go vet, golangci-lint, pytest, " +
			"ruff, mypy, eslint, jest, vitest, tsc and cargo and, if COMMAND contains the tool's name, of rubocop, " +
			"stylelint, yamllint, phpstan, dotnet and 30 others. Other output becomes one entry. Verify exits with the command's exit code. With --json, the " +
			"command's output goes to standard error, and standard output contains only the result.",
		Example: "  precept verify -- go test ./...\n" +
			"  precept verify --intent-id ci-42 --dry-run -- ruff check .",
		Args: argsValidator(cobra.MinimumNArgs(1)),
	}
	c.Flags().SetInterspersed(false)
	ledgerFlag.add(c)
	c.Flags().StringVar(&intent, "intent-id", "verify", "task id for the entries")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print the failures and record nothing")
	addJSONFlag(c, &asJSON)
	c.RunE = func(c *cobra.Command, args []string) error {
		v, err := inv.runVerifier(args, asJSON)
		if err != nil {
			return err
		}
		if v.ExitCode != 0 && !dryRun {
			recordFailures(c.Context(), inv.stderr, ledgerFlag.open(inv), intent, v)
		} else if !dryRun {
			_ = ledgerFlag.open(inv).TraceVerify(args, v.ExitCode, 0)
		}
		if asJSON {
			if err := writeJSON(inv.stdout, v); err != nil {
				return err
			}
		} else {
			printVerifyResult(inv.stderr, v, dryRun)
		}
		if v.ExitCode != 0 {
			return &codedError{code: v.ExitCode}
		}
		return nil
	}
	return c
}

// runVerifier runs a command, passes the output through, and finds the failures in the output. If toStderr is true,
// all output goes to standard error.
func (inv *invocation) runVerifier(args []string, toStderr bool) (*verifyResult, error) {
	capture := &headAndTail{maxEndBytes: maxOutput / 2}
	command := child{
		args: args, in: inv.stdin, stdout: io.MultiWriter(inv.stdout, capture),
		stderr: io.MultiWriter(inv.stderr, capture),
	}
	if toStderr {
		command.stdout = command.stderr
	}
	exit := command.run()
	if exit.err != nil {
		return nil, &codedError{code: exit.code, err: fmt.Errorf("%w; nothing was verified", exit.err)}
	}
	result := &verifyResult{
		Command: args, ExitCode: exit.code, Failures: []ledger.Failure{}, Results: []ledger.Result{},
	}
	if exit.code == 0 || exit.lastSignal == syscall.SIGINT || exit.lastSignal == syscall.SIGTERM { // a stopped command has not failed
		return result, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		dir = ""
	}
	text := capture.String()
	if ledger.DidNotRun(text) {
		return nil, &codedError{code: exit.code, err: fmt.Errorf("`%s` did not run (see the output above), and nothing was recorded", shell.Quote(args...))}
	}
	result.Failures = ledger.Failures(ledger.Output{Text: text, Command: args, Dir: dir, Module: goModule(dir)})
	if len(result.Failures) == 0 {
		result.Failures = []ledger.Failure{ledger.UnrecognizedFailure(args, exit.code, text)}
	}
	if len(result.Failures) > maxFailures {
		fmt.Fprintf(
			inv.stderr, "precept: %d distinct failures; only the first %d are recorded\n", len(result.Failures),
			maxFailures,
		)
		result.Failures = result.Failures[:maxFailures]
	}
	return result, nil
}

// recordFailures records the command's failures. It only prints errors, because precept exits with the command's own
// exit code.
func recordFailures(ctx context.Context, console io.Writer, l *ledger.Ledger, intent string, v *verifyResult) {
	entries := make([]ledger.Entry, 0, len(v.Failures))
	for i := range v.Failures {
		entries = append(entries, v.Failures[i].Entry(intent, v.Command))
	}
	if len(entries) > 0 {
		results, traceErr, err := l.Record(ctx, entries...)
		if err == nil && traceErr != nil && results[0].Status == ledger.Failed {
			err = fmt.Errorf("%s, and %w; make the directory writable for this user", results[0].Message, traceErr)
		}
		if err != nil {
			fmt.Fprintln(console, "precept: nothing was recorded:", err)
			return
		}
		v.Results = results
	}
	if err := l.TraceVerify(v.Command, v.ExitCode, len(v.Failures)); err != nil {
		fmt.Fprintln(console, "precept:", err)
	}
}

// printVerifyResult prints on standard error, because standard output belongs to the command.
func printVerifyResult(console io.Writer, v *verifyResult, dryRun bool) {
	if dryRun {
		for i := range v.Failures {
			f := &v.Failures[i]
			fmt.Fprintf(console, "%s: %s: %s\n", f.Tool, f.File, ledger.Summary(f.Error))
		}
		return
	}
	recorded, duplicates, failure := 0, 0, ""
	for i := range v.Results {
		switch v.Results[i].Status {
		case ledger.Recorded:
			recorded++
		case ledger.Duplicate:
			duplicates++
		case ledger.Failed:
			failure = v.Results[i].Message
		}
	}
	if recorded+duplicates > 0 {
		fmt.Fprintf(
			console, "precept: %s recorded in %s, %d already recorded\n", countNoun(recorded, "failure"),
			v.Results[0].Ledger, duplicates,
		)
	}
	if failure != "" {
		fmt.Fprintf(console, "precept: %s was not changed: %s; the failures are in .orchestration/agent_trace.jsonl\n", v.Results[0].Ledger, failure)
	}
}

// goModule returns a folder's Go import path, which go test prints for failures; "" outside of a module.
func goModule(dir string) string {
	root := dir
	for {
		text, err := os.ReadFile(filepath.Join(root, "go.mod"))
		if err == nil {
			m := regexp.MustCompile(`(?m)^module\s+(\S+)`).FindSubmatch(text)
			if m == nil {
				return ""
			}
			rel, err := filepath.Rel(root, dir)
			if err != nil || rel == "." {
				return string(m[1])
			}
			return string(m[1]) + "/" + filepath.ToSlash(rel)
		}
		parent := filepath.Dir(root)
		if parent == root {
			return ""
		}
		root = parent
	}
}

// headAndTail is a writer that keeps the first and the last output bytes. It is safe for the two goroutines that copy
// standard output and standard error.
type headAndTail struct {
	maxEndBytes int // bytes that String returns from each end
	mu          sync.Mutex
	head        []byte
	tail        []byte
}

func (h *headAndTail) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := len(p)
	room := min(len(p), h.maxEndBytes-len(h.head))
	h.head = append(h.head, p[:room]...)
	h.tail = append(h.tail, p[room:]...)
	if len(h.tail) > 2*h.maxEndBytes {
		h.tail = append(h.tail[:0], h.tail[len(h.tail)-h.maxEndBytes:]...)
	}
	return n, nil
}

// String returns the kept bytes, with a blank line in place of omitted bytes.
func (h *headAndTail) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.tail) <= h.maxEndBytes {
		return string(h.head) + string(h.tail)
	}
	return string(h.head) + "\n\n" + strings.ToValidUTF8(string(h.tail[len(h.tail)-h.maxEndBytes:]), "")
}
