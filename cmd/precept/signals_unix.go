//go:build !windows

package main

import (
	"os"
	"syscall"
)

// forwardedSignals returns the signals that a child receives.
func forwardedSignals() []os.Signal {
	return []os.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
		syscall.SIGUSR2,
	}
}

// isUserSignal reports whether the child defines the meaning of a signal, as of SIGUSR1. Such a signal does
// not stop the child.
func isUserSignal(s syscall.Signal) bool { return s == syscall.SIGUSR1 || s == syscall.SIGUSR2 }
