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

// isUserSignal reports whether only the child gives the signal a meaning. For precept, it is no request to stop.
func isUserSignal(s syscall.Signal) bool { return s == syscall.SIGUSR1 || s == syscall.SIGUSR2 }
