package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"precept/bandit/report"
	"precept/cmd/precept/server"
	"precept/configs"
)

const readyTimeout = 2 * time.Second

type readiness struct {
	Ready   bool   `json:"ready"`
	URL     string `json:"url"`
	Message string `json:"says"`

	hasAnswer bool
}

// readyCommand returns the health check for a container image without a shell.
func (inv *invocation) readyCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "ready",
		Short: "Check whether the running server accepts requests",
		Long: "Ready is a health check for containers. It requests /readyz from the server that uses the data directory. " +
			"If the data directory has no run.json (the file with the addresses), ready uses the address in the " +
			"`listen` key. Exit code 0: the server accepts requests. Exit code 1: the server does not " +
			"accept requests, or does not answer within two seconds.",
		Args: argsValidator(cobra.NoArgs),
	}
	addJSONFlag(c, &asJSON)
	return inv.withConfig(c, []string{"data_dir", "listen"}, func(c *cobra.Command, cfg *configs.Config, _ []string) error {
		r := askReady(c.Context(), cfg)
		if asJSON {
			return writeJSONResult(inv.stdout, r, r.Ready)
		}
		if !r.Ready {
			return fmt.Errorf("%s: %s", r.URL, r.Message)
		}
		_, err := fmt.Fprintf(inv.stdout, "%s: %s\n", r.URL, r.Message)
		return err
	})
}

// askReady requests /readyz, and puts a failed request's error into Message.
func askReady(ctx context.Context, cfg *configs.Config) readiness {
	r := readiness{URL: dataListenerURL(cfg) + "/readyz"}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	res, err := sendRequest(ctx, http.MethodGet, r.URL, "", nil)
	if err != nil {
		r.Message = "no server answers; start the server with `precept serve`, or name a running server's data directory with --data-dir"
		return r
	}
	defer res.Body.Close() //nolint:errcheck // nothing was written
	r.hasAnswer = true
	text, _ := io.ReadAll(io.LimitReader(res.Body, 500))
	r.Ready, r.Message = res.StatusCode == http.StatusOK, report.Printable(
		strings.TrimSpace(string(text)),
	)
	return r
}

// dataListenerURL returns the address in run.json or, without run.json, in the listen key.
func dataListenerURL(cfg *configs.Config) string {
	if runFile, err := server.ReadRunFile(cfg.DataDir); err == nil {
		return runFile.DataURL
	}
	host, port, err := net.SplitHostPort(cfg.Listen)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}
