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
		Short: "Convert a Redis store from a release without shards",
		Long: "Migrate converts a store in Redis that a release without shards has created. The converted store has 256 " +
			"shards (parts that a Redis cluster can place on different nodes). Replicas continue to serve requests. " +
			"Before you start, update all replicas to this release, because it does not read data that an older " +
			"replica writes to the old keys.\n\n" +
			"Migrate copies all sessions, and then copies those again that have changed since. At the end, all " +
			"replicas pause their writes to Redis for a moment, and then switch to the shards; until then, new data " +
			"waits in the outboxes. Migrate deletes the old keys after the time in --pause. Redis needs memory for " +
			"both copies. If migrate fails, run it again on any machine: nothing is lost, and the copy continues.",
		Args: argsValidator(cobra.NoArgs),
	}
	c.Flags().BoolVar(&f.yes, "yes", false, "migrate without confirmation")
	c.Flags().DurationVar(&f.pause, "pause", time.Minute, "time between the switch to the shards and the deletion of the old keys")
	addJSONFlag(c, &f.asJSON)
	return inv.withConfig(c, storeKeys(), func(c *cobra.Command, cfg *configs.Config, _ []string) error {
		return inv.runMigrate(c.Context(), cfg, f)
	})
}

func (inv *invocation) runMigrate(ctx context.Context, cfg *configs.Config, f migrateFlags) error {
	if !server.IsRedis(cfg.StoreURL()) {
		return misuse(errors.New("the store is not in Redis, so there is nothing to migrate; a new release upgrades a store in SQLite when it starts"))
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
		return fmt.Errorf("the migration is incomplete: %w; run `precept migrate` again to continue", err)
	}
	switch {
	case f.asJSON:
		return writeJSON(inv.stdout, map[string]any{
			"tenants": done.Tenants, "sessions": done.Sessions, "frozen_seconds": done.Frozen.Seconds(),
		})
	case !layout.OneShardPerTenant && !layout.Moving:
		_, err = fmt.Fprintln(inv.stdout, "the store already has shards; nothing was changed")
	default:
		_, err = fmt.Fprintf(inv.stdout, "migrated: %s, %s copied; the replicas' writes to Redis were paused for %v\n",
			countNoun(done.Tenants, "tenant"), countNoun(done.Sessions, "session"), done.Frozen.Round(time.Millisecond))
	}
	return err
}
