package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"precept/cmd/precept/server"
	"precept/configs"
	"precept/inject/lesson"
)

type lintResult struct {
	OK       bool             `json:"ok"` // no errors; warnings may remain
	Lessons  int              `json:"lessons"`
	Broken   []lesson.Problem `json:"broken"` // files that do not parse as lessons
	Findings []lesson.Finding `json:"findings"`
	Sessions int              `json:"sessions"` // captured sessions that the triggers were matched against
}

func (inv *invocation) lessonsLintCommand() *cobra.Command {
	var asJSON, noBacktest bool
	c := &cobra.Command{
		Use:   "lint",
		Short: "Check all lessons for faults",
		Long: "Lint checks each lesson's format, trigger, links and expiry, and looks for orders to the model, secrets " +
			"and personal data. If the store has captured sessions, lint also tries the triggers on them (see `lessons " +
			"backtest`), and reports a lesson that would fire in more than 60% of the sessions, or in none of at least " +
			"1,000 sessions. Exit code 1: lint found errors. With warnings alone, the exit code is 0.",
		Args: argsValidator(cobra.NoArgs),
	}
	addJSONFlag(c, &asJSON)
	c.Flags().BoolVar(&noBacktest, "no-backtest", false, "do not try the triggers on captured sessions")
	return inv.withConfig(c, append(storeKeys(), "lessons"), func(c *cobra.Command, cfg *configs.Config, _ []string) error {
		book, problems, err := readExistingBook(c.Context(), inv.tools, cfg)
		if err != nil {
			return err
		}
		coveredPaths := map[string]bool{}
		for _, l := range book.Lessons() {
			coveredPaths[l.Path] = true
		}
		problems = slices.DeleteFunc(problems, func(p lesson.Problem) bool { return coveredPaths[p.Path] && !p.PreviousActive })
		checks := lesson.Checker{Now: inv.tools.Now(), Secrets: server.PrivateKinds}
		answer := lintResult{OK: len(problems) == 0, Lessons: book.Len(), Broken: append([]lesson.Problem{}, problems...)}
		if !noBacktest && !isStoreMissing(cfg) {
			run, err := inv.runBacktest(c.Context(), cfg, book.Lessons(), backtestSelection{})
			if err != nil {
				return fmt.Errorf("%w; add --no-backtest to check without captured sessions", err)
			}
			checks.Backtest, answer.Sessions = run.Matches, run.Sessions()
		}
		answer.Findings = append([]lesson.Finding{}, checks.CheckBook(book)...)
		for i := range answer.Findings {
			answer.OK = answer.OK && answer.Findings[i].Severity != lesson.Error
		}
		if asJSON {
			return writeJSONResult(inv.stdout, answer, answer.OK)
		}
		printLint(inv.stdout, answer)
		return failedUnless(answer.OK)
	})
}

func printFaultWarning(console io.Writer, problems []lesson.Problem) {
	const maxShown = 5
	printProblems(console, problems[:min(maxShown, len(problems))])
	fmt.Fprintf(
		console, "precept: faults in %s; `precept lessons lint` lists all faults\n", countNoun(len(problems), "file"),
	)
}

func printLint(out io.Writer, l lintResult) {
	for _, p := range l.Broken {
		printProblem(out, p)
	}
	printFindings(out, l.Findings)
	fmt.Fprintf(
		out, "%s, %s, %s", countNoun(l.Lessons, "lesson"),
		countNoun(len(l.Broken), "unreadable file"), countNoun(len(l.Findings), "finding"),
	)
	if l.Sessions > 0 {
		fmt.Fprintf(out, ", triggers tried on %s", countNoun(l.Sessions, "session"))
	}
	fmt.Fprintln(out)
}
