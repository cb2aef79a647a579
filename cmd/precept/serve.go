package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"precept/cmd/precept/server"
	"precept/configs"
)

func (inv *invocation) serveCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the proxy",
		Long: "Serve runs the proxy until SIGTERM or SIGINT. The server then waits up to limits.drain_timeout for open " +
			"streams to end; a second signal cuts the streams at once. SIGHUP, or a change in the configuration file, " +
			"reloads the configuration. If the new configuration has faults, the old configuration stays in effect. " +
			"With --json, serve prints its addresses as one JSON line on standard output when the proxy accepts " +
			"requests; log.format sets the log format.",
		Args: argsValidator(cobra.NoArgs),
	}
	flags := inv.addConfigFlags(c)
	flags.trustsProjectFile = true
	printsConfig := c.Flags().Bool(
		"print-config", false, "print the effective configuration without secrets, and exit",
	)
	var asJSON bool
	addJSONFlag(c, &asJSON)
	c.RunE = func(c *cobra.Command, _ []string) error {
		flags.announce(inv)
		source := flags.source(inv, false)
		cfg, err := loadForServer(source)
		if err != nil {
			return err
		}
		if *printsConfig {
			return printConfig(inv.stdout, cfg, asJSON)
		}
		o := inv.serverOptions(cfg, source)
		if asJSON {
			o.Addresses = inv.stdout
		}
		return cutExitError(server.New(o).Run(c.Context()))
	}
	return c
}

// printConfig prints the configuration without secrets, and the keys with non-default values.
func printConfig(out io.Writer, cfg *configs.Config, asJSON bool) error {
	if asJSON {
		tree, err := cfg.EffectiveTree()
		if err != nil {
			return err
		}
		return writeJSON(out, map[string]any{"config": tree, "changed": append([]string{}, configs.ChangedKeys(cfg)...)})
	}
	text, err := cfg.Effective()
	if err != nil {
		return err
	}
	changed := "none"
	if keys := configs.ChangedKeys(cfg); len(keys) > 0 {
		changed = strings.Join(keys, " ")
	}
	_, err = fmt.Fprintf(out, "%s# keys with non-default values: %s\n", text, changed)
	return err
}

func (inv *invocation) serverOptions(cfg *configs.Config, source *server.Source) server.Options {
	return server.Options{
		Tools: inv.tools, Config: cfg, Source: source, Console: inv.stderr, UserRunFile: server.UserRunPath(inv.env),
		Notify: func(ctx context.Context, state string) error { return notifyManager(ctx, inv.env, state) },
	}
}

func cutExitError(err error) error {
	if errors.Is(err, server.ErrStreamsCut) {
		return &codedError{code: exitCut}
	}
	return err
}

// notifyManager sends a state to the service manager at NOTIFY_SOCKET, like sd_notify(3).
func notifyManager(ctx context.Context, env func(string) (string, bool), state string) error {
	name := firstEnv(env, "NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "unixgram", name)
	if err != nil {
		return err
	}
	_, err = c.Write([]byte(state))
	return errors.Join(err, c.Close())
}
