package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"precept/configs"
	"precept/lesson"
	"precept/store/redis"
)

// bankLimit bounds a verb that talks to a bank.
const bankLimit = 10 * reachLimit

// bankURL is the address of the fleet's lessons, "" when they lie in a directory. redis:// alone is the Redis of store.url, so
// that its password stands in one place.
func bankURL(cfg *configs.Config) (string, error) {
	switch {
	case !isRedis(cfg.Lessons):
		return "", nil
	case cfg.Lessons != "redis://":
		return cfg.Lessons, nil
	case isRedis(cfg.StoreURL()):
		return cfg.StoreURL(), nil
	}
	return "", errors.New("lessons: redis:// means the Redis of store.url, and that is a file; write redis://host:6379/0")
}

// openBank opens the fleet's lessons; nil when they lie in a directory.
func (w *world) openBank(cfg *configs.Config, log func(string)) (*redis.Bank, error) {
	url, err := bankURL(cfg)
	if url == "" || err != nil {
		return nil, err
	}
	b, err := redis.OpenBank(redis.Options{URL: url, Now: w.now, Log: log})
	if err != nil {
		return nil, fmt.Errorf("lessons: %w", err)
	}
	return b, nil
}

// openLessons takes the configured lessons into force and makes what watches them. A bank that is away is no reason not to
// start: the lessons come when it does.
func (p *parts) openLessons(ctx context.Context, cfg *configs.Config) error {
	bank, err := p.openBank(cfg, func(line string) { p.log.Debug("redis client", "line", line) })
	if err != nil {
		return err
	}
	if bank == nil {
		watcher := lesson.NewWatcher(cfg.Lessons, p.lessons)
		book, problems, err := watcher.Load()
		if err != nil {
			p.log.Warn("lessons cannot be read; nothing is injected until they can", "dir", cfg.Lessons, "error", err)
			book = lesson.NewBook(nil)
		}
		p.lessons(book, problems)
		p.follow = append(p.follow, watcher.Run)
		return nil
	}
	p.bank = bank
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	texts, _, err := bank.Texts(ctx)
	if err != nil {
		p.log.Warn("lessons cannot be read; nothing is injected until they can", "error", err)
	}
	book, problems, _ := lesson.NewTexts("redis").Load(texts)
	p.lessons(book, problems)
	p.follow = append(p.follow, bank.Watch(p.lessons).Run)
	return nil
}

// readBook reads the configured lessons once, for a verb.
func (w *world) readBook(ctx context.Context, cfg *configs.Config) (*lesson.Book, []lesson.Problem, error) {
	bank, err := w.openBank(cfg, func(string) {})
	if err != nil {
		return nil, nil, err
	}
	if bank == nil {
		return lesson.Load(cfg.Lessons)
	}
	defer bank.Close() //nolint:errcheck // it was only read
	ctx, cancel := context.WithTimeout(ctx, bankLimit)
	defer cancel()
	texts, _, err := bank.Texts(ctx)
	if err != nil {
		return nil, nil, err
	}
	book, problems, _ := lesson.NewTexts("redis").Load(texts)
	return book, problems, nil
}

func (w *world) lessonsPush() *cobra.Command {
	c := &cobra.Command{
		Use:   "push DIR [URL]",
		Short: "Make a directory the lessons of the fleet",
		Long: "Push checks the lessons of DIR and makes them the whole bank at URL (default: lessons, else store.url, where they are in Redis). " +
			"Every replica has them in force within two seconds. Lessons with faults are refused, and nothing is changed then.",
		Args: arguments(cobra.RangeArgs(1, 2)),
	}
	flags := addConfigFlags(c, "lessons", "store.url")
	c.RunE = func(c *cobra.Command, args []string) error {
		bank, err := w.argumentBank(flags, args)
		if err != nil {
			return err
		}
		defer bank.Close() //nolint:errcheck // everything was answered
		texts, err := readTexts(args[0])
		if err != nil {
			return err
		}
		if _, problems, _ := lesson.NewTexts(args[0]).Load(texts); len(problems) > 0 {
			for i := range problems {
				fmt.Fprintln(w.err, problems[i].Error())
			}
			return fmt.Errorf("%d lessons have faults, and nothing was pushed", len(problems))
		}
		ctx, cancel := context.WithTimeout(c.Context(), bankLimit)
		defer cancel()
		old, _, err := bank.Texts(ctx)
		if err != nil {
			return err
		}
		if err := bank.Replace(ctx, texts); err != nil {
			return err
		}
		fmt.Fprintf(w.out, "%d lessons pushed: %s\n", len(texts), difference(old, texts))
		return nil
	}
	return c
}

func (w *world) lessonsPull() *cobra.Command {
	c := &cobra.Command{
		Use:   "pull DIR [URL]",
		Short: "Write the lessons of the fleet into a directory",
		Long:  "Pull writes the lessons of the bank at URL (default: lessons, else store.url, where they are in Redis) into DIR. Files that the bank does not have are left alone.",
		Args:  arguments(cobra.RangeArgs(1, 2)),
	}
	flags := addConfigFlags(c, "lessons", "store.url")
	c.RunE = func(c *cobra.Command, args []string) error {
		bank, err := w.argumentBank(flags, args)
		if err != nil {
			return err
		}
		defer bank.Close() //nolint:errcheck // it was only read
		ctx, cancel := context.WithTimeout(c.Context(), bankLimit)
		defer cancel()
		texts, _, err := bank.Texts(ctx)
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(texts)) {
			if err := writeText(args[0], name, texts[name]); err != nil {
				return err
			}
		}
		fmt.Fprintf(w.out, "%d lessons pulled into %s\n", len(texts), args[0])
		return nil
	}
	return c
}

// argumentBank opens the bank that push and pull were told of.
func (w *world) argumentBank(flags *configFlags, args []string) (*redis.Bank, error) {
	cfg, err := flags.load(w, true)
	if err != nil {
		return nil, err
	}
	switch {
	case len(args) == 2:
		cfg.Lessons = args[1]
	case !isRedis(cfg.Lessons):
		cfg.Lessons = "redis://"
	}
	bank, err := w.openBank(cfg, func(string) {})
	if bank == nil && err == nil {
		err = fmt.Errorf("%s is no bank in Redis; write redis://host:6379/0", args[1])
	}
	return bank, err
}

// readTexts reads the lesson files of a directory.
func readTexts(dir string) (map[string][]byte, error) {
	if !isDirectory(dir) {
		return nil, fmt.Errorf("there is no directory %s", dir)
	}
	texts := map[string][]byte{}
	root := os.DirFS(dir)
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !lesson.IsLessonPath(name) {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Size() > lesson.MaxFile {
			return fmt.Errorf("%s has %d bytes, more than the %d allowed", filepath.Join(dir, name), info.Size(), lesson.MaxFile)
		}
		if err == nil {
			texts[name], err = fs.ReadFile(root, name)
		}
		return err
	})
	return texts, err
}

// writeText writes one lesson; whoever watches the directory sees it whole.
func writeText(dir, name string, text []byte) error {
	if !lesson.IsLessonPath(name) {
		return fmt.Errorf("the bank holds %q, which is no name of a lesson; it was not written", name)
	}
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := os.WriteFile(temp, text, 0o644); err != nil { //nolint:gosec // lessons are for people to read
		return err
	}
	return os.Rename(temp, path)
}

// difference says what a push changed.
func difference(old, now map[string][]byte) string {
	added, changed, gone := 0, 0, 0
	for name, text := range now {
		switch before, ok := old[name]; {
		case !ok:
			added++
		case string(before) != string(text):
			changed++
		}
	}
	for name := range old {
		if _, ok := now[name]; !ok {
			gone++
		}
	}
	var parts []string
	for _, p := range []struct {
		n    int
		word string
	}{{added, "new"}, {changed, "changed"}, {gone, "taken out"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprint(p.n, " ", p.word))
		}
	}
	if len(parts) == 0 {
		return "nothing is new"
	}
	return strings.Join(parts, ", ")
}
