package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"precept/cmd/precept/server"
	"precept/configs"
	"precept/inject/bank"
	"precept/inject/lesson"
	"precept/store/redis"
)

// who is the person at the terminal, for the audit log.
func (w *world) who() string { return cmp.Or(w.variable("USER"), "operator") }

// readBook reads the configured lessons once, for a verb.
func (w *world) readBook(
	ctx context.Context, cfg *configs.Config,
) (*lesson.Book, []lesson.Problem, error) {
	b, closeBank, err := w.OpenWriter(cfg)
	if err != nil {
		return nil, nil, err
	}
	defer closeBank()
	ctx, cancel := context.WithTimeout(ctx, server.BankLimit)
	defer cancel()
	return b.List(ctx)
}

// pushed is the answer of lessons push --json.
type pushed struct {
	Lessons int            `json:"lessons"` // that the bank has now
	Changes []lesson.Event `json:"changes"`
}

func (w *world) lessonsPush() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "push DIR [URL]",
		Short: "Make a directory the lessons of the fleet",
		Long: "Push checks the lessons of DIR and makes them the whole bank at URL (default: " +
			"lessons, else store.url, where they are in Redis). " +
			"Every replica has them in force within two seconds. Lessons with faults are " +
			"refused, and nothing is changed then.",
		Args: arguments(cobra.RangeArgs(1, 2)),
	}
	addJSON(c, &asJSON)
	return w.configured(c, bankKeys(), func(c *cobra.Command, cfg *configs.Config, args []string) error {
		place, err := w.argumentBank(cfg, args)
		if err != nil {
			return err
		}
		defer place.Close() //nolint:errcheck // everything was answered
		texts, err := w.readTexts(args[0])
		if err == nil && len(texts) == 0 { // a wrong directory is likelier than a bank that shall be empty
			err = fmt.Errorf("%s holds no lessons, so nothing was pushed; to empty the bank, "+
				"take each lesson out of it with: precept lessons archive SLUG", args[0])
		}
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(c.Context(), server.BankLimit)
		defer cancel()
		changed, findings, err := w.Writer(place).Replace(ctx, texts, w.who())
		printFindings(w.err, findings)
		if err != nil {
			return fmt.Errorf("nothing was pushed: %w", err)
		}
		return w.reply(
			asJSON, pushed{len(texts), append([]lesson.Event{}, changed...)},
			"%s pushed: %s", amount(len(texts), "lesson"), tally(changed),
		)
	})
}

func (w *world) lessonsPull() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "pull DIR [URL]",
		Short: "Write the lessons of the fleet into a directory",
		Long: "Pull writes the lessons of the bank at URL (default: lessons, else store.url, " +
			"where they are in Redis) into DIR. Files that the bank does not have are left alone.",
		Args: arguments(cobra.RangeArgs(1, 2)),
	}
	addJSON(c, &asJSON)
	return w.configured(c, bankKeys(), func(c *cobra.Command, cfg *configs.Config, args []string) error {
		place, err := w.argumentBank(cfg, args)
		if err != nil {
			return err
		}
		defer place.Close() //nolint:errcheck // it was only read
		ctx, cancel := context.WithTimeout(c.Context(), server.BankLimit)
		defer cancel()
		r, err := place.Read(ctx)
		if err != nil {
			return err
		}
		n, err := w.Writer(bank.Directory(args[0])).CopyIn(ctx, r.Texts, w.who())
		if err != nil {
			return err
		}
		return w.reply(
			asJSON, map[string]int{"lessons": n}, "%s pulled into %s", amount(n, "lesson"), args[0],
		)
	})
}

// argumentBank opens the bank that push and pull were told of.
func (w *world) argumentBank(cfg *configs.Config, args []string) (*redis.Bank, error) {
	switch {
	case len(args) == 2:
		cfg.Lessons = args[1]
	case !server.IsRedis(cfg.Lessons):
		cfg.Lessons = "redis://"
	}
	place, err := w.OpenBank(cfg)
	if place == nil && err == nil {
		err = fmt.Errorf("%s is no bank in Redis; write redis://host:6379/0", args[1])
	}
	return place, err
}

// readTexts reads the lesson files of a directory; each must be readable.
func (w *world) readTexts(dir string) (map[string][]byte, error) {
	if !isDirectory(dir) {
		return nil, fmt.Errorf("there is no directory %s", dir)
	}
	texts, _, problems, err := lesson.ReadDir(dir)
	w.printProblems(problems)
	if err == nil && len(problems) > 0 {
		err = fmt.Errorf("%s cannot be read", amount(len(problems), "lesson"))
	}
	return texts, err
}

// tally says what was changed.
func tally(events []lesson.Event) string {
	count := map[string]int{}
	for i := range events {
		count[events[i].Action]++
	}
	var parts []string
	for _, p := range []struct{ action, word string }{
		{"create", "new"}, {"edit", "changed"}, {"remove", "taken out"},
	} {
		if n := count[p.action]; n > 0 {
			parts = append(parts, fmt.Sprint(n, " ", p.word))
		}
	}
	if len(parts) == 0 {
		return "nothing is new"
	}
	return strings.Join(parts, ", ")
}
