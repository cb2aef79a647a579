package main

import (
	"os"
	"syscall"
)

// forwardedSignals returns the signals that a child receives. Windows has no further signals.
func forwardedSignals() []os.Signal { return []os.Signal{syscall.SIGINT, syscall.SIGTERM} }

// isUserSignal reports whether the child defines the meaning of a signal, as of SIGUSR1. Such a signal does
// not stop the child.
func isUserSignal(syscall.Signal) bool { return false }
