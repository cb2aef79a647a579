package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/spf13/cobra"

	"precept/cmd/precept/server"
	"precept/configs"
)

// The exit codes, see the package's documentation.
const (
	exitDone   = 0
	exitFailed = 1
	exitMisuse = 2
	exitCut    = 3
)

// world is what a verb may touch of the outside.
type world struct {
	in       io.Reader
	out, err io.Writer
	env      func(string) (string, bool)
	names    []configs.Name // of the keys, once a verb has asked for them; all verbs share them
	server.Tools
}

func main() { os.Exit(run()) }

// variable is the first of the named variables of the environment that says something.
func (w *world) variable(names ...string) string {
	for _, name := range names {
		if text, _ := w.env(name); text != "" {
			return text
		}
	}
	return ""
}

// run is main with an exit code, so that tests can be precept.
func run() int {
	tuneCollector(os.LookupEnv)
	log.SetOutput(io.Discard) // net/http prints there what an upstream sent unasked: a model's words, or a key
	w := &world{in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.LookupEnv, Tools: server.Tools{
		Now: time.Now, Random: rand.Reader,
	}}
	return w.execute(context.Background(), os.Args[1:])
}

// execute runs one command line and gives its exit code. It is the one place that prints an error.
func (w *world) execute(ctx context.Context, args []string) int {
	root := w.root() //nolint:contextcheck // cobra hands ctx to the verb
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var coded *codedError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &coded):
		if coded.err != nil {
			fmt.Fprintln(w.err, "precept:", coded.err)
		}
		return coded.code
	default:
		fmt.Fprintln(w.err, "precept:", err)
		return exitFailed
	}
}

// codedError is an error that asks for an exit code of its own; without an err inside everything
// has been said already.
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

// root puts the verbs together.
func (w *world) root() *cobra.Command {
	root := &cobra.Command{
		Use: "precept",
		Short: "A reverse proxy in front of LLM APIs that lets unmodified agents learn " +
			"from experience",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          arguments(cobra.NoArgs),
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(w.in)
	root.SetOut(w.out)
	root.SetErr(w.err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return misuse(fmt.Errorf(
			"%w; %s`%s --help` lists the flags", plainer(err), meant(c, err), c.CommandPath(),
		))
	})
	w.wrapHelp(root)
	for _, g := range []struct {
		title string
		verbs []*cobra.Command
	}{
		{"Run it:", []*cobra.Command{
			w.initVerb(), w.check(), w.serve(), w.runVerb(), w.readyVerb(), w.demo(),
		}},
		{"See what happens:", []*cobra.Command{
			w.report(), w.watch(), w.doctor(), w.inspect(),
		}},
		{"Lessons and feedback:", []*cobra.Command{
			w.lessons(), w.distill(), w.feedback(), w.record(), w.verify(),
		}},
		{"Data:", []*cobra.Command{w.export(), w.importVerb(), w.forget()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, v := range g.verbs {
			v.GroupID = g.title
		}
		root.AddCommand(g.verbs...)
	}
	root.AddCommand(w.version())
	checkTopics(root)
	return root
}

// checkTopics makes a misspelt name behind help and completion, which cobra adds, a misuse.
func checkTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			c.Args = arguments(cobra.NoArgs)
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		case "help":
			c.Args = func(_ *cobra.Command, args []string) error {
				if at, rest, _ := root.Find(args); len(rest) > 0 {
					return arguments(cobra.NoArgs)(at, rest)
				}
				return nil
			}
		}
	}
}
