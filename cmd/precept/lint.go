package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"precept/lesson"
	"precept/sample"
)

// linted is the answer of lessons lint --json.
type linted struct {
	OK       bool             `json:"ok"` // no errors; warnings may remain
	Lessons  int              `json:"lessons"`
	Broken   []lesson.Problem `json:"broken"` // files that cannot be read as lessons
	Findings []lesson.Finding `json:"findings"`
}

func (w *world) lessonsLint() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "lint",
		Short: "Run every check over the lessons",
		Long:  "Lint runs the checks that a lesson passes before it may speak: form, triggers that are too broad, orders to the model, secrets and personal data, links, expiry. Exit code 1: there are errors; warnings alone give 0.",
		Args:  arguments(cobra.NoArgs),
	}
	flags := addConfigFlags(c, "lessons")
	c.Flags().BoolVar(&asJSON, "json", false, "answer as JSON")
	c.RunE = func(*cobra.Command, []string) error {
		book, problems, err := w.loadBook(flags)
		if err != nil {
			return err
		}
		checks := lesson.Checks{Now: w.now(), Secrets: secrets}
		answer := linted{OK: len(problems) == 0, Lessons: book.Len(), Broken: problems, Findings: checks.Book(book)}
		for i := range answer.Findings {
			answer.OK = answer.OK && answer.Findings[i].Severity != lesson.Error
		}
		code := exitDone
		if !answer.OK {
			code = exitFailed
		}
		if asJSON {
			return w.answer(answer, code)
		}
		w.tellLint(answer)
		return exit(code)
	}
	return c
}

// tellLint prints findings for people, a line each.
func (w *world) tellLint(l linted) {
	for _, p := range l.Broken {
		fmt.Fprintln(w.out, printable(p.Error()))
	}
	for _, f := range l.Findings {
		fmt.Fprintln(w.out, printable(f.String()))
	}
	fmt.Fprintf(w.out, "%d lessons, %d files that cannot be read, %d findings\n", l.Lessons, len(l.Broken), len(l.Findings))
}

// secrets names the kinds of secrets and personal data in a text, by the redactor that samples pass through.
func secrets(text string) []string {
	r := sample.NewRedactor(true)
	r.Text(text)
	return slices.Sorted(maps.Keys(r.Counts()))
}
