package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"precept/bandit/report"
	"precept/cmd/precept/server"
	"precept/configs"
	"precept/inject/lesson"
)

// checkResult is the output of check --json.
type checkResult struct {
	OK           bool             `json:"ok"`
	Config       string           `json:"config,omitempty"` // configuration hash
	File         string           `json:"config_file,omitempty"`
	Faults       configs.Faults   `json:"faults,omitempty"`
	Lessons      int              `json:"lessons"`
	Broken       []lesson.Problem `json:"broken_lessons,omitempty"`
	LessonsError string           `json:"lessons_error,omitempty"` // why the lessons cannot be read
}

func (inv *invocation) checkCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration and the lessons, and report all faults",
		Long: "Check reads the configuration as serve would, with flags and environment variables, and then the " +
			"lessons. Exit code 0: serve would start, and every lesson is readable; 1: a lesson has faults, or Redis does " +
			"not return the lessons; 2: the configuration has faults. Check also marks precept.yaml in the working " +
			"directory as trusted; other commands stop if an untrusted precept.yaml names a host or an environment " +
			"variable.",
		Args: argsValidator(cobra.NoArgs),
	}
	flags := inv.addConfigFlags(c)
	flags.trustsProjectFile = true
	addJSONFlag(c, &asJSON)
	c.RunE = func(c *cobra.Command, _ []string) error {
		flags.announce(inv)
		cfg, err := loadForServer(flags.source(inv, false))
		if faults, ok := configFaults(err); ok && asJSON {
			if err := writeJSON(inv.stdout, checkResult{Faults: faults}); err != nil {
				return err
			}
			return &codedError{code: exitMisuse}
		}
		if err != nil {
			return err
		}
		return inv.checkLessons(c.Context(), cfg, flags.path(inv), asJSON)
	}
	return c
}

// checkLessons checks the lessons and prints the result. The error has exit code 1 if a lesson has faults or the
// lessons cannot be read.
func (inv *invocation) checkLessons(ctx context.Context, cfg *configs.Config, file string, asJSON bool) error {
	answer := checkResult{Config: cfg.Hash(), File: file}
	book, problems, err := inv.loadLessons(ctx, cfg)
	switch {
	case err == nil:
		answer.Lessons, answer.Broken = book.Len(), problems
	case server.IsRedis(cfg.Lessons):
		answer.LessonsError = err.Error()
	default:
		return err
	}
	answer.OK = len(answer.Broken) == 0 && answer.LessonsError == ""
	if asJSON {
		return writeJSONResult(inv.stdout, answer, answer.OK)
	}
	fmt.Fprintf(inv.stdout, "configuration %s: ok (%s)\n", answer.Config, cmp.Or(report.Printable(file), "no file"))
	fmt.Fprintf(inv.stdout, "upstream: %s\n", strings.Join(cfg.UpstreamURLs(), " and "))
	if answer.LessonsError != "" {
		return err
	}
	fmt.Fprintf(inv.stdout, "lessons in %s: %d can be read, %d cannot\n", server.LessonsLocation(cfg), answer.Lessons, len(answer.Broken))
	if !server.IsRedis(cfg.Lessons) && !isDirectory(cfg.Lessons) {
		fmt.Fprintf(
			inv.stderr, "precept: the lessons directory %s does not exist; create the directory, or set lessons to another one "+
				"(`precept init --starter` writes starter lessons to ./lessons)\n",
			report.Printable(absolutePath(cfg.Lessons)),
		)
	}
	for _, p := range answer.Broken {
		printProblem(inv.stderr, p)
	}
	return failedUnless(answer.OK)
}

// loadLessons reads the lessons a server would use. If the directory does not exist, the book is empty.
func (inv *invocation) loadLessons(ctx context.Context, cfg *configs.Config) (*lesson.Book, []lesson.Problem, error) {
	switch {
	case server.IsRedis(cfg.Lessons):
		return readBook(ctx, inv.tools, cfg)
	case isDirectory(cfg.Lessons):
		return lesson.Load(cfg.Lessons, server.SecretKinds)
	}
	return lesson.NewBook(nil), nil, nil
}

func writeJSONResult(out io.Writer, v any, ok bool) error {
	if err := writeJSON(out, v); err != nil {
		return err
	}
	return failedUnless(ok)
}

// failedUnless returns an error with exit code 1 and no text, for a command that has already printed the result.
func failedUnless(ok bool) error {
	if ok {
		return nil
	}
	return &codedError{code: exitFailed}
}
