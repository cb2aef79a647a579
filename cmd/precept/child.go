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

// Exit codes that shells use if a command cannot be run or is ended by a signal.
const (
	exitNotRunnable = 126
	exitNotFound    = 127
	exitSignalBase  = 128 // plus the signal number
)

// outputGrace is the maximum wait for output after the child exits. A background process that the child has started
// could keep the output open forever.
const outputGrace = 2 * time.Second

// child is a program that precept runs in the foreground.
type child struct {
	args           []string
	env            []string // nil means precept's own environment
	in             io.Reader
	stdout, stderr io.Writer
}

// childExit is how a child ended.
type childExit struct {
	code       int // precept's exit code
	err        error
	lastSignal syscall.Signal // last signal received by precept; 0 if none
}

// run runs the program until it exits, and forwards signals to the program. It does not forward a signal that the
// terminal has sent to all foreground processes, because most programs treat a second ^C differently from the first.
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

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) //nolint:gosec // a file descriptor fits into an int
}

// startFailureCode returns the exit code used by shells for a program that cannot be started.
func startFailureCode(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return exitNotFound
	}
	return exitNotRunnable
}

// exitCode returns the child's exit code, or 128 plus the number of the terminating signal, as shells do.
func exitCode(err error) (int, error) {
	if errors.Is(err, exec.ErrWaitDelay) { // the child succeeded; see outputGrace
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
