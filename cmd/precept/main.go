// Command precept is a reverse proxy in front of LLM APIs. It lets unmodified agents learn from experience.
//
// Most files contain one command, such as precept serve.
//
// The exit codes are:
//   - 0: success
//   - 1: failure, or a check with findings
//   - 2: misuse, that is, wrong flags or arguments, or a faulty configuration
//   - 3: stopped, and streams were cut when limits.drain_timeout ended or a second signal arrived
//
// A malformed configuration file is misuse (2), but a finding (1) for doctor. Other missing or malformed files are a
// failure (1).
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"precept/cmd/precept/server"
	"precept/configs"
	"precept/internal/session"
)

const (
	exitSuccess = 0
	exitFailed  = 1
	exitMisuse  = 2
	exitCut     = 3
)

// invocation holds everything that a command takes from the process. Tests pass different values.
type invocation struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            func(string) (string, bool)
	envNames       []string
	tools          server.Tools
	keys           []configs.KeyInfo // configuration keys; nil until a command needs them
}

func main() { os.Exit(run()) }

// firstEnv returns the value of the first named variable that is not blank.
func firstEnv(env func(string) (string, bool), names ...string) string {
	for _, name := range names {
		if text, _ := env(name); strings.TrimSpace(text) != "" {
			return strings.TrimSpace(text) // a mounted secret may end with a newline
		}
	}
	return ""
}

func run() int {
	tuneCollector(os.LookupEnv)
	log.SetOutput(io.Discard) // net/http logs unexpected bytes from an upstream, which can contain model output or a key
	inv := &invocation{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, env: os.LookupEnv, tools: server.Tools{
		Now: time.Now, Random: rand.Reader, OnDamaged: server.DamageReport(func(ref session.Ref, err error) {
			fmt.Fprintf(
				os.Stderr, "precept: session %s in tenant %s has a damaged exchange, so the session's content is left out (%v); `precept forget --session %[1]s --tenant %[2]s` deletes the session\n",
				ref.ID, ref.Tenant, err,
			)
		}),
	}}
	inv.tools.OnUnreplicated = func(err error) { fmt.Fprintln(os.Stderr, "precept: warning:", err) }
	inv.tools.OnJudgeWait = judgeWaitReport(inv.stderr, time.Now)
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		inv.envNames = append(inv.envNames, name)
	}
	return inv.execute(context.Background(), os.Args[1:])
}

// execute runs a command line, prints the error, and returns the exit code.
func (inv *invocation) execute(ctx context.Context, args []string) int {
	root := inv.rootCommand() //nolint:contextcheck // cobra passes ctx to the command
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var coded *codedError
	switch {
	case err == nil:
		return exitSuccess
	case errors.As(err, &coded):
		if coded.err != nil {
			fmt.Fprintln(inv.stderr, "precept:", coded.err)
		}
		return coded.code
	default:
		fmt.Fprintln(inv.stderr, "precept:", err)
		return exitFailed
	}
}

// codedError is an error with an exit code. If err is nil, the command has already printed the error.
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *codedError) Unwrap() error { return e.err }

func misuse(err error) error { return &codedError{code: exitMisuse, err: err} }

func (inv *invocation) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use: "precept",
		Short: "A reverse proxy in front of LLM APIs that lets unmodified agents learn " +
			"from experience",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          argsValidator(cobra.NoArgs),
	}
	showVersion := root.Flags().Bool("version", false, "print the version")
	root.RunE = func(c *cobra.Command, _ []string) error {
		if *showVersion {
			_, err := fmt.Fprintln(inv.stdout, versionText(server.ReadBuild()))
			return err
		}
		return c.Help()
	}
	root.SetIn(inv.stdin)
	root.SetOut(inv.stdout)
	root.SetErr(inv.stderr)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return misuse(fmt.Errorf(
			"%w; %s`%s --help` lists the flags", plainFlagError(err), suggestedFlag(c, err), c.CommandPath(),
		))
	})
	wrapHelp(inv.stdout, root)
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Run it:", []*cobra.Command{
			inv.initCommand(), inv.checkCommand(), inv.serveCommand(), inv.runCommand(), inv.readyCommand(), inv.demoCommand(),
		}},
		{"See what happens:", []*cobra.Command{
			inv.reportCommand(), inv.dashboardCommand(), inv.watchCommand(), inv.doctorCommand(), inspectCommand(inv.stdin, inv.stdout),
		}},
		{"Lessons and feedback:", []*cobra.Command{
			inv.lessonsCommand(), inv.rulesCommand(), inv.distillCommand(), inv.feedbackCommand(), inv.recordCommand(), inv.newVerifyCommand(),
		}},
		{"Data:", []*cobra.Command{inv.exportCommand(), inv.importCommand(), inv.forgetCommand(), inv.migrateCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, command := range g.commands {
			command.GroupID = g.title
		}
		root.AddCommand(g.commands...)
	}
	root.AddCommand(versionCommand(inv.stdout))
	checkBuiltinArgs(root)
	return root
}

// checkBuiltinArgs makes cobra's help and completion commands reject misspelt arguments with exit code 2.
func checkBuiltinArgs(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			c.Args = argsValidator(cobra.NoArgs)
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		case "help":
			c.Args = func(_ *cobra.Command, args []string) error {
				if found, rest, _ := root.Find(args); len(rest) > 0 {
					return argsValidator(cobra.NoArgs)(found, rest)
				}
				return nil
			}
		}
	}
}

func versionText(b server.Build) string {
	text := "precept " + b.Version
	if b.Revision != "" {
		text += " " + b.Revision
	}
	return text + " " + b.Go
}

func versionCommand(out io.Writer) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  argsValidator(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			b := server.ReadBuild()
			if asJSON {
				return writeJSON(out, b)
			}
			_, err := fmt.Fprintln(out, versionText(b))
			return err
		},
	}
	addJSONFlag(c, &asJSON)
	return c
}
