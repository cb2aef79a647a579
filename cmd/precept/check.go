package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"precept/app"
	"precept/configs"
	"precept/lesson"
)

// checked is the answer of check --json.
type checked struct {
	OK      bool             `json:"ok"`
	Config  string           `json:"config,omitempty"` // its hash
	Faults  configs.Faults   `json:"faults,omitempty"`
	Lessons int              `json:"lessons"`
	Broken  []lesson.Problem `json:"broken_lessons,omitempty"`
}

func (w *world) check() *cobra.Command {
	var asJSON, print bool
	c := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration and the lessons, all faults at once",
		Long:  "Check reads the configuration as serve would, with its flags and variables, and the lessons that it names. Exit code 0: serve would start and every lesson can be read; 2: the configuration has faults; 1: a lesson has.",
		Args:  arguments(cobra.NoArgs),
	}
	flags := w.addConfigFlags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "answer as JSON")
	c.Flags().BoolVar(&print, "print", false, "print the configuration in force, without secrets")
	c.RunE = func(*cobra.Command, []string) error {
		cfg, err := flags.load(w, false)
		if faults, ok := configFaults(err); ok && asJSON {
			return w.answer(checked{Faults: faults}, exitMisuse)
		}
		if err != nil {
			return err
		}
		if print {
			return w.printConfig(cfg)
		}
		return w.checkLessons(cfg, asJSON)
	}
	return c
}

// printConfig prints the configuration in force, without secrets, and which keys of it are not at
// their defaults.
func (w *world) printConfig(cfg *configs.Config) error {
	text, err := cfg.Effective()
	if err != nil {
		return err
	}
	changed := "none"
	if keys := configs.Changed(cfg); len(keys) > 0 {
		changed = strings.Join(keys, " ")
	}
	_, err = fmt.Fprintf(w.out, "%s# not at their defaults: %s\n", text, changed)
	return err
}

// checkLessons reads the bank and answers.
func (w *world) checkLessons(cfg *configs.Config, asJSON bool) error {
	answer := checked{Config: cfg.Hash()}
	if isDirectory(cfg.Lessons) {
		book, problems, err := lesson.Load(cfg.Lessons, app.Keys)
		if err != nil {
			return err
		}
		answer.Lessons, answer.Broken = book.Len(), problems
	}
	answer.OK = len(answer.Broken) == 0
	code := exitDone
	if !answer.OK {
		code = exitFailed
	}
	if asJSON {
		return w.answer(answer, code)
	}
	fmt.Fprintf(w.out, "configuration %s: ok\nlessons in %s: %d can be read, %d cannot\n", answer.Config, cfg.Lessons, answer.Lessons, len(answer.Broken))
	for _, p := range answer.Broken {
		fmt.Fprintln(w.err, p.Error())
	}
	return exit(code)
}

// answer writes JSON and ends with a code.
func (w *world) answer(v any, code int) error {
	if err := writeJSON(w.out, v); err != nil {
		return err
	}
	return exit(code)
}

// exit ends with a code when all has been said.
func exit(code int) error {
	if code == exitDone {
		return nil
	}
	return &codedError{code: code}
}
