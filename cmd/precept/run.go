package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"precept/cmd/precept/server"
	"precept/configs"
)

type runFlags struct {
	listener            listenerFlags
	verify              string
	record, asJSON      bool
	run, session, agent string
}

func (inv *invocation) runCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run [flags] -- AGENT ...",
		Short: "Run an agent through precept, and rate its work with a check",
		Long: "Run starts an unmodified agent, and sends the agent's requests through precept. All agents that the " +
			"command starts belong to one run: each agent has a separate session, and all sessions in the run share " +
			"the random decisions. Run sets the base-URL variables for the agent's process only. Some agents (codex, " +
			"opencode, pi, qwen, Continue) need more settings: run then uses the agent's flags or an edited copy of " +
			"its settings, and leaves your files unchanged.\n\nRun uses the server at --url or PRECEPT_URL, or else " +
			"the server that uses the data directory, or else the server that this user started last. If no server is " +
			"running, run starts a server that stops when the agent ends. Unless a configuration file or data_dir is " +
			"given, this server keeps its data and run.log in ~/.local/share/precept/data, or in ./data if that folder " +
			"already contains precept's data. With --verify, a shell command checks the agent's work, and the exit code " +
			"becomes the run's feedback. If no request got a successful reply, the run gets no feedback. Run exits with " +
			"the agent's exit code.",
		Example: "  precept run -- claude -p \"Fix the failing test\"\n" +
			"  precept run --verify \"go test ./...\" -- codex exec \"Fix the failing test\"",
		Args: argsValidator(cobra.MinimumNArgs(1)),
	}
	flags := inv.addConfigFlags(c, "data_dir", "upstream", "lessons", "ledger.file")
	c.Flags().SetInterspersed(false)
	f.listener.add(c)
	c.Flags().StringVar(
		&f.verify, "verify", "", "shell command that succeeds if the agent's work is good",
	)
	c.Flags().BoolVar(
		&f.record, "record", false, "record the failures found by --verify in AGENT.md",
	)
	c.Flags().StringVar(
		&f.run, "run", "", "run name (default: a generated name, unless --session is given)",
	)
	c.Flags().StringVar(
		&f.session, "session", "",
		"name of one session for all requests; precept distinguishes sub-agents by their tools",
	)
	c.Flags().StringVar(&f.agent, "agent", "", "agent name (default: the program name)")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print the result as one JSON line on standard error, because standard output belongs to the agent")
	c.RunE = func(c *cobra.Command, args []string) error {
		if f.record && f.verify == "" {
			return misuse(errors.New(
				"--record needs a verifier; add --verify CMD",
			))
		}
		return inv.runAgent(c.Context(), flags, &f, args)
	}
	return c
}

func (inv *invocation) runAgent(
	ctx context.Context, flags *configFlags, f *runFlags, args []string,
) (err error) {
	cfg, err := flags.load(inv)
	if err != nil {
		return err
	}
	if _, err := exec.LookPath(args[0]); err != nil { // check before a server is started
		return agentError(startFailureCode(err), err)
	}
	base, err := findDataListener(ctx, inv.env, cfg, &f.listener)
	var ownServer *server.Server // runs in this process; nil if another process serves
	if errors.Is(err, errNotRunning) {
		var stop func() error
		if ownServer, base, stop, err = inv.startServer(ctx, flags); err == nil {
			defer func() {
				if failed := stop(); failed != nil {
					fmt.Fprintln(inv.stderr, "precept:", failed)
				}
			}()
		}
	} else if err == nil && !isAlive(ctx, base) {
		err = fmt.Errorf("precept at %s does not answer; start that server, or correct --url or PRECEPT_URL", base)
	} else if err == nil {
		if err = flags.checkServerHasSettings(inv, cfg, base); err == nil {
			fmt.Fprintln(inv.stderr, "precept: using the server at", base)
		}
	}
	if err != nil {
		return err
	}
	l, err := inv.newLaunch(cfg, f, base, args)
	if err != nil {
		return err
	}
	defer func() {
		if l.tempPath != "" {
			_ = os.RemoveAll(l.tempPath)
		}
	}()
	if err := l.configure(); err != nil {
		return err
	}
	agent := child{args: l.args, env: envList(l.env), in: inv.stdin, stdout: inv.stdout, stderr: inv.stderr}
	ended := agent.run()
	if ended.err != nil {
		return agentError(ended.code, ended.err)
	}
	if ownServer != nil && ownServer.Requests() == 0 && f.verify == "" {
		fmt.Fprintf(inv.stderr, "precept: %s sent no request to precept; if the agent does not read OPENAI_BASE_URL or ANTHROPIC_BASE_URL, "+
			"start `precept serve` and set the agent's base URL to the printed address (docs/AGENTS.md)\n", l.agent)
	}
	result := runResult{Run: l.run, Session: l.session, Agent: l.agent, URL: base, ExitCode: ended.code}
	if f.verify != "" && (ended.lastSignal == 0 || isUserSignal(ended.lastSignal)) { // a stopped agent's work is incomplete
		result.Verifier = inv.verifyRun(ctx, cfg, f, l)
	}
	if f.asJSON {
		if err := writeLine(inv.stderr, result); err != nil && ended.code == 0 { // a failed agent's exit code is returned instead
			return err
		}
	}
	if ended.code != 0 {
		return &codedError{code: ended.code}
	}
	return nil
}

// checkServerHasSettings returns an error if the command line or the environment names an upstream or lessons, and the
// running server has different ones. Without the error, the agent's API key would go to the server's upstream.
func (f *configFlags) checkServerHasSettings(inv *invocation, cfg *configs.Config, base string) error {
	run, err := server.ReadRunFile(cfg.DataDir)
	isKnown := err == nil && run.DataURL == base
	user, _ := server.ReadUserRunFile(inv.env)
	ignored := ""
	switch {
	case isKnown && slices.Equal(run.Upstreams, cfg.UpstreamURLs()):
	case f.values["upstream"] != "":
		ignored = "--upstream"
	case isKnown && firstEnv(inv.env, "PRECEPT_UPSTREAM") != "":
		ignored = "PRECEPT_UPSTREAM"
	}
	if ignored == "" && f.values["lessons"] != "" && user.DataURL == base && user.Lessons != absolutePath(cfg.Lessons) {
		ignored = "--lessons"
	}
	if ignored == "" {
		return nil
	}
	return misuse(fmt.Errorf("the server at %s runs with its own settings and does not use %s; leave out %[2]s, stop that server, "+
		"or start another server with --data-dir and a new directory", base, ignored))
}

type runResult struct {
	Run      string          `json:"run,omitempty"`     // run name
	Session  string          `json:"session,omitempty"` // session name, with --session
	Agent    string          `json:"agent"`
	URL      string          `json:"url"` // address of precept
	ExitCode int             `json:"exit_code"`
	Verifier *verifierResult `json:"verifier,omitempty"`
}

type verifierResult struct {
	Command  string `json:"command"`
	ExitCode int    `json:"exit_code"`
	Failures int    `json:"failures"`         // failures that precept found in the command's output
	Status   string `json:"status,omitempty"` // joined, parked (kept until the session is stored), ignored or unanswered; "" if the post failed
	Error    string `json:"error,omitempty"`
}

func agentError(code int, err error) error {
	return &codedError{code: code, err: fmt.Errorf("the agent cannot be started: %w", err)}
}

// newLaunch returns the arguments and the environment for the agent. If neither --run nor --session is given, newLaunch
// generates a run name.
func (inv *invocation) newLaunch(
	cfg *configs.Config, f *runFlags, base string, args []string,
) (*launch, error) {
	l := &launch{
		cfg: cfg, dataURL: base, args: args, run: f.run, session: f.session, agent: f.agent,
		env: map[string]string{}, stderr: inv.stderr,
	}
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		l.env[name] = value
	}
	if l.agent == "" {
		l.agent = programName(args)
	}
	if l.run == "" && l.session == "" {
		var b [8]byte
		if _, err := io.ReadFull(inv.tools.Random, b[:]); err != nil {
			return nil, fmt.Errorf("generate a run name: %w", err)
		}
		l.run = "run-" + hex.EncodeToString(b[:])
	}
	var err error
	if l.workDir, err = os.Getwd(); err != nil {
		return nil, err
	}
	l.home, err = os.UserHomeDir()
	return l, err
}

func envList(env map[string]string) []string {
	out := make([]string, 0, len(env))
	for name, value := range env {
		out = append(out, name+"="+value)
	}
	return out
}

// verifyRun runs the verifier, and posts the result. precept still exits with the agent's exit code.
func (inv *invocation) verifyRun(ctx context.Context, cfg *configs.Config, f *runFlags, l *launch) *verifierResult {
	command := []string{"sh", "-c", f.verify}
	verified, err := inv.runVerifier(command, true)
	if err != nil {
		fmt.Fprintln(inv.stderr, "precept:", err)
		return &verifierResult{Command: f.verify, ExitCode: startFailureCode(err), Error: err.Error()}
	}
	verified.Command = []string{f.verify}
	result := &verifierResult{Command: f.verify, ExitCode: verified.ExitCode, Failures: len(verified.Failures)}
	body := map[string]any{
		"source": "system", "type": "score", "score": 0.0, "rater": "precept run", "if_answered": true,
		"details": map[string]any{
			"verifier": f.verify, "exit_code": verified.ExitCode, "failures": len(verified.Failures),
		},
	}
	if verified.ExitCode == 0 {
		body["score"] = 1.0
	}
	subject, name := "run", l.run
	if name == "" {
		subject, name = "session", l.session
	}
	body[subject+"_id"] = name
	if f.record && verified.ExitCode != 0 {
		ledgerFlag := ledgerFlags{file: cfg.Ledger.File}
		recordFailures(ctx, inv.stderr, ledgerFlag.open(inv), name, verified)
		printVerifyResult(inv.stderr, verified, false)
	}
	find := func() (string, error) { return l.dataURL, nil }
	answer, err := inv.postFeedback(ctx, retryTimeout, find, credential(inv.env, cfg, &f.listener), body)
	if err != nil {
		fmt.Fprintln(inv.stderr, "precept: the verifier's result could not be posted:", err)
		result.Error = err.Error()
		return result
	}
	result.Status = answer.Status
	if answer.Status == "unanswered" {
		fmt.Fprintf(inv.stderr, "precept: no request in %s %s got a successful reply, so the verifier's result is ignored\n", subject, name)
		return result
	}
	outcome := map[bool]string{true: "passed", false: "failed"}[verified.ExitCode == 0]
	if answer.Status == "parked" {
		fmt.Fprintf(
			inv.stderr, "precept: the verifier %s; the result is kept (parked) until a request in %s %s is stored; if the agent does not read "+
				"OPENAI_BASE_URL or ANTHROPIC_BASE_URL, set the agent's base URL to %s (docs/AGENTS.md)\n", outcome, subject, name, l.dataURL,
		)
		return result
	}
	fmt.Fprintf(inv.stderr, "precept: the verifier %s; the result was posted for %s %s (%s)\n", outcome, subject, name, answer.Status)
	return result
}

// startServer starts a server in this process; the caller stops the server after the agent has ended. The server uses
// free ports, handles no signals and writes no run.json, so that other commands do not find it.
func (inv *invocation) startServer(ctx context.Context, flags *configFlags) (s *server.Server, base string, stop func() error, err error) {
	source := flags.source(inv, false)
	cfg, err := source.Load()
	if err != nil {
		return nil, "", nil, misuse(err)
	}
	ownCfg := *cfg
	ownCfg.Listen, ownCfg.Admin.Listen = "127.0.0.1:0", "127.0.0.1:0"
	if dir := server.UserDataDir(inv.env); !flags.isDataLocationSet(inv) && !server.HasPreceptData(ownCfg.DataDir) && dir != "" {
		ownCfg.DataDir = dir // a default ./data without precept's data may be a folder of the user's project
	}
	if err := server.MakeDataDir(ownCfg.DataDir); err != nil {
		return nil, "", nil, fmt.Errorf("create the data directory: %w; name another directory with --data-dir", err)
	}
	fmt.Fprintf(inv.stderr, "precept: no server is running, so this command starts one: upstream %s, %s in %s, data in %s\n",
		strings.Join(ownCfg.UpstreamURLs(), " and "), countNoun(inv.countLessons(ctx, &ownCfg), "lesson"), ownCfg.Lessons, ownCfg.DataDir)
	log, err := os.OpenFile(
		filepath.Join(ownCfg.DataDir, "run.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600,
	)
	if err != nil {
		return nil, "", nil, err
	}
	ready := make(chan string, 1)
	s = server.New(server.Options{
		Tools: inv.tools, Config: &ownCfg, Source: source, Console: log, Embedded: true,
		OnReady: func(data, _ string) { ready <- data },
	})
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	ended := make(chan error, 1)
	wg.Go(func() { ended <- cutExitError(s.Run(runCtx)) })
	stop = func() error {
		cancel()
		wg.Wait()
		return errors.Join(<-ended, log.Close())
	}
	select {
	case base = <-ready:
		return s, base, stop, nil
	case err := <-ended:
		cancel()
		if errors.Is(err, errDataDirLocked) {
			err = fmt.Errorf(
				"%w; to start several runs at once, start `precept serve` first", err,
			)
		}
		return nil, "", nil, errors.Join(err, log.Close())
	}
}

func (inv *invocation) countLessons(ctx context.Context, cfg *configs.Config) int {
	book, _, err := readExistingBook(ctx, inv.tools, cfg)
	if err != nil {
		return 0
	}
	return book.Len()
}
