package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"precept/cmd/precept/server"
	"precept/configs"
	"precept/inject/bank"
	"precept/inject/lesson"
	"precept/store/redis"
)

func userName(env func(string) (string, bool)) string {
	return cmp.Or(firstEnv(env, "USER"), "operator")
}

func readBook(
	ctx context.Context, tools server.Tools, cfg *configs.Config,
) (*lesson.Book, []lesson.Problem, error) {
	b, closeBank, err := tools.OpenBank(cfg)
	if err != nil {
		return nil, nil, err
	}
	defer closeBank()
	ctx, cancel := context.WithTimeout(ctx, server.BankTimeout)
	defer cancel()
	book, problems, err := b.List(ctx)
	return book, problems, server.LessonsError(cfg, err)
}

type pushResult struct {
	Lessons int            `json:"lessons"` // lessons in the bank after the push
	Changes []lesson.Event `json:"changes"`
}

func (inv *invocation) lessonsPushCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "push DIR [URL]",
		Short: "Replace the lessons in Redis with the lessons in a directory",
		Long: "Push checks the lessons in DIR, and replaces all lessons in the Redis at URL. Without URL, push uses the " +
			"Redis in the `lessons` key, or else the Redis in store.url. Every replica uses the new lessons " +
			"within two seconds. If a lesson has faults, the command names the lesson and changes nothing.",
		Args: argsValidator(cobra.RangeArgs(1, 2)),
	}
	addJSONFlag(c, &asJSON)
	return inv.withConfig(c, bankKeys(), func(c *cobra.Command, cfg *configs.Config, args []string) error {
		storage, err := openArgumentBank(inv.tools, cfg, args)
		if err != nil {
			return err
		}
		defer storage.Close() //nolint:errcheck // Redis has confirmed every write
		texts, err := readLessonTexts(inv.stderr, args[0])
		if err == nil && len(texts) == 0 { // probably a wrong directory
			err = fmt.Errorf("%s contains no lessons, so push changed nothing; to remove all lessons from Redis, "+
				"retire each lesson: precept lessons retire SLUG", args[0])
		}
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(c.Context(), server.BankTimeout)
		defer cancel()
		changed, findings, err := inv.tools.NewBank(storage).Replace(ctx, texts, userName(inv.env))
		printFindings(inv.stderr, findings)
		if err != nil {
			return fmt.Errorf("push failed and changed nothing: %w", err)
		}
		return printResult(inv.stdout,
			asJSON, pushResult{len(texts), append([]lesson.Event{}, changed...)},
			"%s pushed: %s", countNoun(len(texts), "lesson"), changeSummary(changed),
		)
	})
}

func (inv *invocation) lessonsPullCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "pull DIR [URL]",
		Short: "Write the lessons in Redis into a directory",
		Long: "Pull writes the lessons in the Redis at URL into DIR. Without URL, pull uses the Redis in the " +
			"`lessons` key, or else the Redis in store.url. Other files in DIR stay unchanged.",
		Args: argsValidator(cobra.RangeArgs(1, 2)),
	}
	addJSONFlag(c, &asJSON)
	return inv.withConfig(c, bankKeys(), func(c *cobra.Command, cfg *configs.Config, args []string) error {
		storage, err := openArgumentBank(inv.tools, cfg, args)
		if err != nil {
			return err
		}
		defer storage.Close() //nolint:errcheck // the bank was only read
		ctx, cancel := context.WithTimeout(c.Context(), server.BankTimeout)
		defer cancel()
		r, err := storage.Read(ctx)
		if err != nil {
			return err
		}
		n, err := inv.tools.NewBank(bank.Directory(args[0])).CopyIn(ctx, r.Texts, userName(inv.env))
		if err != nil {
			return err
		}
		return printResult(inv.stdout,
			asJSON, map[string]int{"lessons": n}, "%s pulled into %s", countNoun(n, "lesson"), args[0],
		)
	})
}

// openArgumentBank opens the Redis at the second argument, or else the configured Redis.
func openArgumentBank(tools server.Tools, cfg *configs.Config, args []string) (*redis.Bank, error) {
	switch {
	case len(args) == 2:
		if err := redis.CheckURL(args[1]); err != nil && args[1] != "redis://" {
			return nil, misuse(fmt.Errorf("the lessons' URL %w", err))
		}
		cfg.Lessons = args[1]
	case !server.IsRedis(cfg.Lessons):
		cfg.Lessons = "redis://"
	}
	return tools.OpenRedisBank(cfg)
}

// readLessonTexts reads the lesson files in dir, and returns an error if one is not a valid lesson.
func readLessonTexts(console io.Writer, dir string) (map[string][]byte, error) {
	if !isDirectory(dir) {
		return nil, fmt.Errorf("the directory %s does not exist; name a directory with LESSON.md files", dir)
	}
	texts, _, problems, err := lesson.ReadDir(dir)
	printProblems(console, problems)
	if err == nil && len(problems) > 0 {
		err = fmt.Errorf("%s cannot be read; correct the files named above", countNoun(len(problems), "lesson"))
	}
	return texts, err
}

func changeSummary(events []lesson.Event) string {
	count := map[string]int{}
	for i := range events {
		count[events[i].Action]++
	}
	var parts []string
	for _, p := range []struct{ action, word string }{
		{"create", "new"}, {"edit", "changed"}, {"remove", "removed"},
	} {
		if n := count[p.action]; n > 0 {
			parts = append(parts, fmt.Sprint(n, " ", p.word))
		}
	}
	if len(parts) == 0 {
		return "no changes"
	}
	return strings.Join(parts, ", ")
}
