package main

import (
	"context"
	"errors"
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
	maxOutput   = 16 << 20 // maximum number of output bytes that are kept: half from the start, half from the end
	maxFailures = 1000     // maximum number of failures of one command that are recorded
)

// verifyAnswer is the answer of verify --json.
type verifyAnswer struct {
	Command  []string         `json:"command"`
	ExitCode int              `json:"exit_code"`
	Failures []ledger.Failure `json:"failures"`
	Results  []ledger.Result  `json:"results"` // one result for each failure, in the same order; empty if nothing was recorded
}

// verify returns the command that runs a given program and records its failures in the ledger.
func (inv *invocation) verify() *cobra.Command {
	var ledgerFlag ledgerFlags
	var intent string
	var asJSON, dry bool
	c := &cobra.Command{
		Use:   "verify [flags] -- COMMAND ...",
		Short: "Run a linter or a test and record its failures in AGENT.md",
		Long: "Verify runs a command and passes its output through. If the command fails, each distinct " +
			"failure (go test, go vet, golangci-lint, pytest, ruff, mypy, eslint, jest, vitest, tsc, " +
			"cargo; with the name in COMMAND also rubocop, stylelint, yamllint, phpstan, dotnet and " +
			"30 others) becomes an entry of AGENT.md. An output of another form becomes one entry. " +
			"The exit status is the status of the command. With --json, the output of the command " +
			"goes to standard error, and standard output holds only the result.",
		Example: "  precept verify -- go test ./...\n" +
			"  precept verify --intent-id ci-42 --dry-run -- ruff check .",
		Args: arguments(cobra.MinimumNArgs(1)),
	}
	c.Flags().SetInterspersed(false)
	ledgerFlag.add(c)
	c.Flags().StringVar(&intent, "intent-id", "verify", "id of the task, for the entries")
	c.Flags().BoolVar(&dry, "dry-run", false, "print the failures and record nothing")
	addJSON(c, &asJSON)
	c.RunE = func(c *cobra.Command, args []string) error {
		v, err := inv.verifyCommand(args, asJSON)
		if err != nil {
			return err
		}
		if v.ExitCode != 0 && !dry {
			recordFailures(c.Context(), inv.err, ledgerFlag.open(inv), intent, v)
		} else if !dry {
			_ = ledgerFlag.open(inv).TraceVerify(args, v.ExitCode, 0)
		}
		if asJSON {
			if err := writeJSON(inv.out, v); err != nil {
				return err
			}
		} else {
			printVerified(inv.err, v, dry)
		}
		if v.ExitCode != 0 {
			return &codedError{code: v.ExitCode}
		}
		return nil
	}
	return c
}

// verifyCommand runs the command and reads the failures in its output.
func (inv *invocation) verifyCommand(args []string, toStderr bool) (*verifyAnswer, error) {
	capture := &headAndTail{half: maxOutput / 2}
	command := child{
		args: args, in: inv.in, stdout: io.MultiWriter(inv.out, capture),
		stderr: io.MultiWriter(inv.err, capture),
	}
	if toStderr {
		command.stdout = command.stderr
	}
	o := command.run()
	if o.err != nil {
		return nil, &codedError{code: o.code, err: fmt.Errorf("%w; nothing was verified", o.err)}
	}
	v := &verifyAnswer{
		Command: args, ExitCode: o.code, Failures: []ledger.Failure{}, Results: []ledger.Result{},
	}
	if o.code == 0 || o.lastSignal == syscall.SIGINT || o.lastSignal == syscall.SIGTERM { // the command was stopped and did not fail
		return v, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		dir = ""
	}
	text := capture.String()
	if ledger.NotRun(text) {
		return nil, &codedError{code: o.code, err: fmt.Errorf("`%s` did not run, see the output above; nothing was recorded", shell.Quote(args...))}
	}
	v.Failures = ledger.Failures(ledger.Output{Text: text, Command: args, Dir: dir, Module: goModule(dir)})
	if len(v.Failures) == 0 {
		v.Failures = []ledger.Failure{ledger.Unread(args, o.code, text)}
	}
	if len(v.Failures) > maxFailures {
		fmt.Fprintf(
			inv.err, "precept: %d distinct failures; only the first %d are recorded\n", len(v.Failures),
			maxFailures,
		)
		v.Failures = v.Failures[:maxFailures]
	}
	return v, nil
}

// recordFailures adds the failures to the ledger. The exit code of precept remains the exit code of the command.
func recordFailures(ctx context.Context, console io.Writer, l *ledger.Ledger, intent string, v *verifyAnswer) {
	entries := make([]ledger.Entry, 0, len(v.Failures))
	for i := range v.Failures {
		entries = append(entries, v.Failures[i].Entry(intent, v.Command))
	}
	var untraced error
	if len(entries) > 0 {
		results, lost, err := l.Record(ctx, entries...)
		if err != nil {
			fmt.Fprintln(console, "precept: nothing was recorded:", err)
			return
		}
		v.Results, untraced = results, lost
	}
	if err := errors.Join(untraced, l.TraceVerify(v.Command, v.ExitCode, len(v.Failures))); err != nil {
		fmt.Fprintln(console, "precept:", err)
	}
}

// printVerified prints the recorded entries on standard error, because standard output belongs to
// the command.
func printVerified(console io.Writer, v *verifyAnswer, dry bool) {
	if dry {
		for i := range v.Failures {
			f := &v.Failures[i]
			fmt.Fprintf(console, "%s: %s: %s\n", f.Tool, f.File, ledger.Summary(f.Error))
		}
		return
	}
	added, known, refused := 0, 0, ""
	for i := range v.Results {
		switch v.Results[i].Status {
		case ledger.Recorded:
			added++
		case ledger.Duplicate:
			known++
		case ledger.Failed:
			refused = v.Results[i].Message
		}
	}
	if added+known > 0 {
		fmt.Fprintf(
			console, "precept: %s recorded in %s, %d already recorded\n", amount(added, "failure"),
			v.Results[0].Ledger, known,
		)
	}
	if refused != "" {
		fmt.Fprintf(console, "precept: %s was not changed: %s; the failures are in .orchestration/agent_trace.jsonl\n", v.Results[0].Ledger, refused)
	}
}

// goModule returns the import path of a folder in a Go module, by which go test names the package of the folder; ""
// outside of a module.
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

// headAndTail is a writer that keeps the first and the last bytes of an output.
type headAndTail struct {
	half int        // number of bytes that String returns of each end
	mu   sync.Mutex // standard output and standard error come from two goroutines
	head []byte
	tail []byte
}

func (b *headAndTail) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(p)
	room := min(len(p), b.half-len(b.head))
	b.head = append(b.head, p[:room]...)
	b.tail = append(b.tail, p[room:]...)
	if len(b.tail) > 2*b.half {
		b.tail = append(b.tail[:0], b.tail[len(b.tail)-b.half:]...)
	}
	return n, nil
}

// String returns the kept bytes. A blank line takes the place of omitted bytes.
func (b *headAndTail) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.tail) <= b.half {
		return string(b.head) + string(b.tail)
	}
	return string(b.head) + "\n\n" + strings.ToValidUTF8(string(b.tail[len(b.tail)-b.half:]), "")
}
