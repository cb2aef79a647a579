package main

import (
	"os"
	"syscall"
)

// forwardedSignals returns the signals that a child receives. Windows has no others.
func forwardedSignals() []os.Signal { return []os.Signal{syscall.SIGINT, syscall.SIGTERM} }

// ofItsOwn reports whether a signal has a meaning of the child's own, and does not stop the child.
func ofItsOwn(syscall.Signal) bool { return false }
