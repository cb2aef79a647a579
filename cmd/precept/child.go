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

// Exit codes that shells use for a command that could not be run, or that a signal ended.
const (
	exitNotRunnable = 126
	exitNotFound    = 127
	exitSignalBase  = 128 // plus the number of the signal
)

// outputGrace is the maximum time between the end of a child and the end of its output. Without this limit, precept
// would wait forever for a background process that has inherited the output.
const outputGrace = 2 * time.Second

// child is a program that precept runs in the foreground. The child uses precept's terminal and gets the signals that
// precept receives. precept exits with the child's status.
type child struct {
	args           []string
	env            []string // nil means the environment of precept
	in             io.Reader
	stdout, stderr io.Writer
}

// childExit describes how a child ended.
type childExit struct {
	code       int
	err        error          // reason why the child could not be run
	lastSignal syscall.Signal // last signal that precept received; 0 if none
}

// run runs the child until it ends, and passes signals on. A signal that the terminal sends to all foreground
// processes is not passed on, because most programs treat a second ^C differently from the first.
func (c *child) run() childExit {
	cmd := exec.Command(c.args[0], c.args[1:]...) //nolint:gosec,noctx // runs the user's command, without a deadline
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = c.in, c.stdout, c.stderr, c.env
	cmd.WaitDelay = outputGrace
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, forwardedSignals()...)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return childExit{code: startFailureCode(err), err: err}
	}
	onTerminal := isTerminal(c.in)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var o childExit
	for {
		select {
		case err := <-ended:
			o.code, o.err = exitCode(err)
			return o
		case sig := <-signals:
			s, _ := sig.(syscall.Signal)
			o.lastSignal = s
			if !onTerminal || s != syscall.SIGINT && s != syscall.SIGQUIT {
				_ = cmd.Process.Signal(sig)
			}
		}
	}
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) //nolint:gosec // a file descriptor fits into an int
}

// startFailureCode returns the exit code that shells use for a program that could not be started.
func startFailureCode(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return exitNotFound
	}
	return exitNotRunnable
}

// exitCode returns the exit code that shells use for an error of exec.Cmd.Wait. This is the child's exit code, or 128
// plus the number of the signal that ended the child.
func exitCode(err error) (int, error) {
	if errors.Is(err, exec.ErrWaitDelay) {
		return 0, nil
	}
	exitErr, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		if err != nil {
			return exitFailed, err
		}
		return 0, nil
	}
	if status, ok := exitErr.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignalBase + int(status.Signal()), nil
	}
	return exitErr.ExitCode(), nil
}
