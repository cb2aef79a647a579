//go:build !windows

package main

import (
	"os"
	"syscall"
)

// forwardedSignals returns the signals that precept passes on to a child.
func forwardedSignals() []os.Signal {
	return []os.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
		syscall.SIGUSR2,
	}
}

// isUserSignal reports whether a signal has a meaning that only the child defines, such as SIGUSR1. precept does not
// treat such a signal as a request to stop.
func isUserSignal(s syscall.Signal) bool { return s == syscall.SIGUSR1 || s == syscall.SIGUSR2 }
