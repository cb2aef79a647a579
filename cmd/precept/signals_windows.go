package main

import (
	"os"
	"syscall"
)

// forwardedSignals returns the signals that precept passes on to a child. Windows has no further signals.
func forwardedSignals() []os.Signal { return []os.Signal{syscall.SIGINT, syscall.SIGTERM} }

// isUserSignal returns false, because Windows has no signal such as SIGUSR1.
func isUserSignal(syscall.Signal) bool { return false }
