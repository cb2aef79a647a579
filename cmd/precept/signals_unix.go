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

// ofItsOwn reports whether a signal has a meaning of the child's own, and does not stop the child.
func ofItsOwn(s syscall.Signal) bool { return s == syscall.SIGUSR1 || s == syscall.SIGUSR2 }
