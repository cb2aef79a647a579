package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"precept/cmd/precept/lake"
	"precept/cmd/precept/server"
	"precept/configs"
)

type lakeFlags struct {
	follow, once bool
	group        string
	endpoint     string
	flushSize    string
	flushEvery   time.Duration
}

func (f *lakeFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.BoolVar(&f.follow, "follow", false, "keep running, and write each new sample once into Parquet files under --output")
	flags.BoolVar(&f.once, "once", false, "with --follow: write the samples that exist now, and exit (for a scheduled job)")
	flags.StringVar(&f.group, "group", "lake", "with --follow: name under which precept remembers the written samples; each --output needs a separate group")
	flags.StringVar(&f.flushSize, "flush-size", "64MiB", "with --follow: write files when the waiting samples reach this size")
	flags.DurationVar(&f.flushEvery, "flush-every", 5*time.Minute, "with --follow: write files when the oldest waiting sample reaches this age")
	flags.StringVar(&f.endpoint, "s3-endpoint", "", "with --follow: address of an S3-compatible server (default: AWS_ENDPOINT_URL_S3, otherwise AWS)")
}

func (f *lakeFlags) givenFlag(c *cobra.Command) string {
	for _, name := range []string{"once", "group", "flush-size", "flush-every", "s3-endpoint"} {
		if c.Flags().Changed(name) {
			return name
		}
	}
	return ""
}

func (f *exportFlags) checkFollow() error {
	switch {
	case f.format != "parquet":
		return errors.New("--follow writes Parquet files; add --format parquet")
	case f.output == "":
		return errors.New("--follow needs a place for the files; add --output DIR or --output s3://BUCKET/PREFIX")
	case f.stats:
		return errors.New("--follow and --stats cannot be combined; omit one")
	case f.since != "" || f.until != "" || f.tenant != "" || f.lesson+f.session != "" || len(f.families)+len(f.quality) > 0:
		return errors.New("--follow writes all samples; omit --since, --until, --tenant, --lesson, --session, --family and --quality, and select when you read the files")
	case f.lake.group == "" || strings.Trim(f.lake.group, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "":
		return fmt.Errorf("--group %q is not a valid name; use letters, digits, dashes, underscores and dots", f.lake.group)
	case f.lake.flushEvery <= 0:
		return errors.New("--flush-every is not above zero; write a duration such as 5m")
	}
	return nil
}

// followExport copies new samples to Parquet files in --output, until a signal or, with --once, until all are copied.
func (inv *invocation) followExport(ctx context.Context, cfg *configs.Config, flags *configFlags, f *exportFlags) error {
	if err := f.checkFollow(); err != nil {
		return misuse(err)
	}
	size, err := configs.ParseSize(f.lake.flushSize)
	if err != nil || size < 1 {
		return misuse(fmt.Errorf("--flush-size %q is not a size above zero; write a size such as 64MiB", f.lake.flushSize))
	}
	storage, err := lake.OpenStorage(f.output, f.lake.endpoint, func(name string) string { return firstEnv(inv.env, name) })
	if err != nil {
		return misuse(err)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process immediately
	optOut, err := flags.optOutReader(inv, cfg)
	if err != nil {
		return err
	}
	db, err := inv.tools.OpenUnfiltered(ctx, cfg)
	if err != nil {
		return err
	}
	defer db.Close() //nolint:errcheck // nothing was written
	id, err := inv.tools.StoreID(ctx, cfg, db)
	if err != nil {
		return err
	}
	o := lake.Options{
		Store:  id,
		Source: server.FilterOptedOutStreams(db, optOut, inv.tools.OnDamaged), Group: f.lake.group, Storage: storage,
		BatchBytes: int(size), BatchAge: f.lake.flushEvery, Once: f.lake.once,
		Now: inv.tools.Now, Sleep: server.Sleep,
	}
	reported := false
	o.Report = func(text string) {
		reported = true
		fmt.Fprintln(inv.stderr, "precept: "+text)
	}
	if server.IsRedis(cfg.StoreURL()) {
		o.GroupStore, _ = db.(lake.GroupStore)
	}
	if strings.HasPrefix(f.output, "s3://") {
		o.LockPath = filepath.Join(cfg.DataDir, "export-"+f.lake.group+".lock")
	} else {
		o.LockPath = filepath.Join(f.output, "_precept", "lock")
	}
	o.Owner, err = lockOwner(o.LockPath)
	if err != nil {
		return err
	}
	o.Writer = lake.Process{ID: rand.Text(), Since: inv.tools.Now().UTC()}
	if o.Writer.Host, err = os.Hostname(); err != nil {
		return err
	}
	err = lake.Run(ctx, o)
	if err == nil && f.lake.once && !reported {
		fmt.Fprintln(inv.stderr, "precept: no new samples; a session has samples once it is closed (reward.close_after)")
	}
	return err
}

// lockOwner returns the lease owner id for the process that locks the file: host name and path. The next process has
// the same id, and takes over the group's lease without waiting, even if the previous process was killed.
func lockOwner(path string) (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", err
	}
	abs, err := filepath.Abs(path)
	return host + ":" + abs, err
}
