//go:build !windows

package main

import (
	"os"
	"syscall"
)

func forwardedSignals() []os.Signal {
	return []os.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
		syscall.SIGUSR2,
	}
}

// isUserSignal reports whether the signal has a meaning only for the child, and does not ask precept to stop.
func isUserSignal(s syscall.Signal) bool { return s == syscall.SIGUSR1 || s == syscall.SIGUSR2 }
