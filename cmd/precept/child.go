package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"
)

// Exit codes of a command that could not be run, as in shells.
const (
	exitNotRunnable = 126
	exitNotFound    = 127
	exitSignalled   = 128
)

// outputGrace is the maximum wait for the end of a child's output after the end of the child. A process that
// the child started may keep the output open for ever.
const outputGrace = 2 * time.Second

// child is a program that precept runs in the foreground. The child has the terminal and gets the signals that precept
// receives, and precept exits with the status of the child.
type child struct {
	args     []string
	env      []string // nil means the environment of precept
	in       io.Reader
	out, err io.Writer
}

// outcome describes the end of a child.
type outcome struct {
	code   int
	failed error          // reason why the child could not be run
	sent   syscall.Signal // last signal that precept received; 0 if none
}

// run runs the child to its end and passes signals on. A signal that a terminal sends to all
// foreground processes is not passed on, because a second ^C has another meaning in most programs.
func (c *child) run() outcome {
	cmd := exec.Command(c.args[0], c.args[1:]...) //nolint:gosec,noctx // the user's command; the command ends itself, or a signal ends the command
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = c.in, c.out, c.err, c.env
	cmd.WaitDelay = outputGrace
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, forwardedSignals()...)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return outcome{code: startFailureCode(err), failed: err}
	}
	onTerminal := isTerminal(c.in)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var o outcome
	for {
		select {
		case err := <-ended:
			o.code, o.failed = exitCode(err)
			return o
		case sig := <-signals:
			s, _ := sig.(syscall.Signal)
			o.sent = s
			if !onTerminal || s != syscall.SIGINT && s != syscall.SIGQUIT {
				_ = cmd.Process.Signal(sig)
			}
		}
	}
}

// isTerminal reports whether an input or an output is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) //nolint:gosec // a descriptor is small
}

// startFailureCode returns the exit code of a shell for a program that could not be started.
func startFailureCode(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return exitNotFound
	}
	return exitNotRunnable
}

// exitCode returns the exit code of a shell for the error of exec.Cmd.Wait: the child's code, or 128 plus the
// number of the signal that ended the child.
func exitCode(err error) (int, error) {
	if errors.Is(err, exec.ErrWaitDelay) {
		return 0, nil
	}
	ended, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		if err != nil {
			return exitFailed, err
		}
		return 0, nil
	}
	if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignalled + int(status.Signal()), nil
	}
	return ended.ExitCode(), nil
}
