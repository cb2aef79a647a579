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

// The exit codes of a command that could not be run, as shells have them.
const (
	exitNotRunnable = 126
	exitNotFound    = 127
	exitSignalled   = 128
)

// leftOpen is how long a child's output is awaited after it ended: what it left running may hold it
// open for ever.
const leftOpen = 2 * time.Second

// child is another program that runs in front of the user: it has the terminal, our signals, and
// its exit status is ours.
type child struct {
	args     []string
	env      []string // nil: ours
	in       io.Reader
	out, err io.Writer
}

// outcome is how a child ended.
type outcome struct {
	code   int
	broken error          // why it could not be run at all
	sent   syscall.Signal // the last signal that was passed on, 0 for none
}

// run runs the child to its end. Signals are passed on; those that a terminal sends to everybody in
// front of it are not passed on a second time: a second ^C means something else to most programs.
func (c *child) run() outcome {
	cmd := exec.Command(c.args[0], c.args[1:]...) //nolint:gosec,noctx // to run it is what the user asked for; it ends by itself or by a signal
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = c.in, c.out, c.err, c.env
	cmd.WaitDelay = leftOpen
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, passedOn()...)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return outcome{code: notStarted(err), broken: err}
	}
	onTerminal := isTerminal(c.in)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var o outcome
	for {
		select {
		case err := <-ended:
			o.code, o.broken = exitCode(err)
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

// isTerminal says that a person is at an input or an output.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) //nolint:gosec // a descriptor is small
}

func notStarted(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return exitNotFound
	}
	return exitNotRunnable
}

// exitCode is the status that a shell would tell.
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
