package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"precept/admin"
	"precept/bandit/report"
	"precept/cmd/precept/server"
	"precept/configs"
)

const adminTimeout = 5 * time.Second

const maxResponse = 64 << 20 // bytes

// errNoServer reports that run.json is missing, or that the server named there does not answer.
var errNoServer = errors.New("no server is running on this data directory")

// askAdmin sends a GET request to the admin listener named in run.json. If no server answers, the error wraps
// errNoServer, and the caller can read the store instead.
func askAdmin(ctx context.Context, cfg *configs.Config, path string, read func(io.Reader) error) error {
	runFile, err := server.ReadRunFile(cfg.DataDir)
	if err == nil {
		token, _ := adminToken(cfg) // without a token, the server responds with 401, and responseError names the remedy
		ctx, cancel := context.WithTimeout(ctx, adminTimeout)
		defer cancel()
		if err = (adminClient{runFile.AdminURL, token}).do(ctx, http.MethodGet, path, nil, read); !errors.Is(err, errNoServer) {
			return err
		}
	}
	return fmt.Errorf(
		"%w: %s; start the server with `precept serve`, or name a running server's data directory with --data-dir", errNoServer, cfg.DataDir,
	)
}

func decodeJSON(target any) func(io.Reader) error {
	return func(r io.Reader) error { return json.NewDecoder(r).Decode(target) }
}

// adminClient sends requests to a running server's admin listener.
type adminClient struct{ base, token string }

// runningServer returns a client for the server that has locked the data directory.
func runningServer(cfg *configs.Config) (adminClient, error) {
	runFile, err := server.ReadRunFile(cfg.DataDir)
	if err != nil {
		return adminClient{}, fmt.Errorf("%w by a process whose address is unknown (%w); wait until the process has ended, or stop the process", errDataDirLocked, err)
	}
	token, err := adminToken(cfg)
	if err != nil {
		return adminClient{}, fmt.Errorf("a server uses the data directory and needs an admin token (%w); set PRECEPT_ADMIN_TOKEN", err)
	}
	return adminClient{runFile.AdminURL, token}, nil
}

// do sends a request. If no server answers, the error is errNoServer.
func (a adminClient) do(ctx context.Context, method, path string, body []byte, read func(io.Reader) error) error {
	res, err := sendRequest(ctx, method, a.base+path, a.token, body)
	if ctx.Err() != nil {
		return fmt.Errorf("the server at %s did not answer in time: %w", a.base, ctx.Err())
	}
	if err != nil {
		return errNoServer // a crashed server leaves run.json in the directory
	}
	defer res.Body.Close() //nolint:errcheck // nothing was written
	if res.StatusCode != http.StatusOK {
		return responseError(a.base, res)
	}
	return read(io.LimitReader(res.Body, maxResponse))
}

// sendRequest sends a request to the server, never through the environment's proxy.
func sendRequest(
	ctx context.Context, method, address, token string, body []byte,
) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return client.Do(req)
}

func responseError(base string, res *http.Response) error {
	switch res.StatusCode {
	case http.StatusForbidden: // the body has the reason, such as a viewer's token
	case http.StatusUnauthorized:
		return &statusError{res.StatusCode, fmt.Sprintf(
			"the server at %s rejected the admin token (%s); set PRECEPT_ADMIN_TOKEN to one of this server's tokens", base, res.Status,
		)}
	case http.StatusTooManyRequests:
		return fmt.Errorf(
			"the server at %s received too many wrong tokens (%s); try again in a minute", base,
			res.Status,
		)
	}
	text, _ := io.ReadAll(io.LimitReader(res.Body, 500))
	if message := gjson.GetBytes(text, "error"); message.Type == gjson.String {
		text = []byte(message.String())
	}
	return &statusError{res.StatusCode, fmt.Sprintf(
		"the server at %s returned %s: %s", base, res.Status,
		report.Printable(strings.TrimSpace(string(text))),
	)}
}

// statusError is an error response from the running server.
type statusError struct {
	status  int
	message string
}

func (e *statusError) Error() string { return e.message }

// adminToken returns a configured unhashed token, or else the generated token in the data directory.
func adminToken(cfg *configs.Config) (string, error) {
	for _, t := range cfg.Admin.Tokens {
		if !strings.HasPrefix(t.Reveal(), "sha256:") {
			return t.Reveal(), nil
		}
	}
	b, err := os.ReadFile(filepath.Join(cfg.DataDir, admin.TokenFile))
	token := strings.TrimSpace(string(b))
	if err == nil && token == "" {
		err = errors.New("the file admin-token in the data directory is empty; remove the file and restart precept")
	}
	return token, err
}
