package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"precept/cmd/precept/server"
	"precept/configs"
	"precept/store/redis"
)

type migrateFlags struct {
	pause       time.Duration // time until the old keys are deleted; calls that began before the switch still use them
	yes, asJSON bool
}

func (inv *invocation) migrateCommand() *cobra.Command {
	var f migrateFlags
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Move an earlier release's store in Redis to shards",
		Long: "Migrate moves a store in Redis that was created by a release without shards to 256 shards (parts " +
			"that a Redis cluster can place on different nodes), while replicas serve. First let all replicas run this release: it does not read data that an older replica writes into the old keys.\n\n" +
			"The sessions are copied, then the changed " +
			"sessions again. At the end all replicas' writes wait in the outboxes for a moment, and " +
			"all replicas continue in the shards. The old keys are deleted a minute later. Redis needs " +
			"memory for both copies. Run migrate again after a failure, on any machine: nothing is lost, " +
			"and the copy continues.",
		Args: argsValidator(cobra.NoArgs),
	}
	c.Flags().BoolVar(&f.yes, "yes", false, "migrate without confirmation")
	c.Flags().DurationVar(&f.pause, "pause", time.Minute, "time between the switch to shards and deleting the old keys")
	addJSONFlag(c, &f.asJSON)
	return inv.withConfig(c, storeKeys(), func(c *cobra.Command, cfg *configs.Config, _ []string) error {
		return inv.runMigrate(c.Context(), cfg, f)
	})
}

func (inv *invocation) runMigrate(ctx context.Context, cfg *configs.Config, f migrateFlags) error {
	if !server.IsRedis(cfg.StoreURL()) {
		return misuse(errors.New("the store is not in Redis; a store in SQLite is migrated at the first start with a new release"))
	}
	opened, err := inv.tools.OpenUnfiltered(ctx, cfg)
	if err != nil {
		return err
	}
	defer opened.Close() //nolint:errcheck // Close only closes the connection
	db, ok := opened.(*redis.Store)
	if !ok {
		return errors.New("the store has no shards")
	}
	layout, err := db.Layout(ctx)
	if err != nil {
		return fmt.Errorf("read the store's layout: %w", err)
	}
	if layout.OneShardPerTenant && !f.yes {
		fmt.Fprint(inv.stderr, "Do all replicas run this release, or are they stopped? [yes/no] ")
		line, _ := bufio.NewReader(inv.stdin).ReadString('\n')
		if answer := strings.ToLower(strings.TrimSpace(line)); answer != "yes" && answer != "y" {
			return errors.New("the migration was not confirmed, so nothing has changed; answer yes, or add --yes")
		}
	}
	lastShown := time.Time{}
	done, err := db.Migrate(ctx, redis.MigrateOptions{Owner: rand.Text(), Pause: f.pause, Progress: func(sessions int64) {
		if now := inv.tools.Now(); now.Sub(lastShown) >= time.Second {
			lastShown = now
			fmt.Fprintf(inv.stderr, "precept: copied %s\n", countNoun(sessions, "session"))
		}
	}})
	if err != nil {
		return fmt.Errorf("the store was not migrated: %w; run precept migrate again, the copy continues", err)
	}
	switch {
	case f.asJSON:
		return writeJSON(inv.stdout, map[string]any{
			"tenants": done.Tenants, "sessions": done.Sessions, "frozen_seconds": done.Frozen.Seconds(),
		})
	case !layout.OneShardPerTenant && !layout.Moving:
		_, err = fmt.Fprintln(inv.stdout, "the store has shards already")
	default:
		_, err = fmt.Fprintf(inv.stdout, "migrated: %s, %s copied; replicas could not write for %v\n",
			countNoun(done.Tenants, "tenant"), countNoun(done.Sessions, "session"), done.Frozen.Round(time.Millisecond))
	}
	return err
}
