package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"

	"precept/admin"
	"precept/cmd/precept/server"
	"precept/configs"
)

// dashboardLink is the output of dashboard --json.
type dashboardLink struct {
	URL   string `json:"url"`
	Login string `json:"login_url,omitempty"` // URL with the token; empty if only token hashes are configured
}

func (inv *invocation) dashboardCommand() *cobra.Command {
	var open, asJSON bool
	c := &cobra.Command{
		Use:   "dashboard",
		Short: "Print the dashboard's login link, or open the dashboard",
		Long: "Dashboard prints the login link for the server that uses the data directory. The link contains the " +
			"admin token. --open opens the link in the browser and does not print the token. Exit code 1: no server " +
			"is running.",
		Args: argsValidator(cobra.NoArgs),
	}
	c.Flags().BoolVar(&open, "open", false, "open the dashboard in the browser")
	addJSONFlag(c, &asJSON)
	return inv.withConfig(c, []string{"data_dir", "admin.tokens"}, func(c *cobra.Command, cfg *configs.Config, _ []string) error {
		link, err := findDashboard(c.Context(), cfg)
		if err != nil {
			return err
		}
		if open {
			if err := openBrowser(c.Context(), link.loginURL()); err != nil {
				return fmt.Errorf("the browser cannot be opened: %w; `precept dashboard` without --open prints the link", err)
			}
		}
		switch {
		case asJSON:
			return writeJSON(inv.stdout, link)
		case open:
			_, err = fmt.Fprintln(inv.stdout, "opened", link.URL)
		default:
			_, err = fmt.Fprintln(inv.stdout, link.loginURL())
		}
		return err
	})
}

func (l dashboardLink) loginURL() string {
	if l.Login != "" {
		return l.Login
	}
	return l.URL
}

func findDashboard(ctx context.Context, cfg *configs.Config) (dashboardLink, error) {
	runFile, err := server.ReadRunFile(cfg.DataDir)
	if err != nil || !isAlive(ctx, runFile.AdminURL) {
		return dashboardLink{}, fmt.Errorf("%w: %s; start the server with `precept serve`, or name a running server's data directory with --data-dir", errNoServer, cfg.DataDir)
	}
	link := dashboardLink{URL: runFile.AdminURL + cfg.Admin.BasePath}
	if token, err := adminToken(cfg); err == nil {
		link.Login = admin.LoginLink(link.URL, token)
	}
	return link, nil
}

func openBrowser(ctx context.Context, url string) error {
	command := []string{"xdg-open", url}
	switch runtime.GOOS {
	case "darwin":
		command[0] = "open"
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler", url}
	}
	if _, err := exec.LookPath(command[0]); err != nil {
		return errors.New("the program " + command[0] + " is not installed")
	}
	return exec.CommandContext(ctx, command[0], command[1:]...).Run() //nolint:gosec // no shell runs, and the URL is the address of the user's own server
}
