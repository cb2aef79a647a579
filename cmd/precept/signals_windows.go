package main

import (
	"os"
	"syscall"
)

// passedOn returns the signals that a child receives. Windows has no others.
func passedOn() []os.Signal { return []os.Signal{syscall.SIGINT, syscall.SIGTERM} }

// ofItsOwn reports whether a signal has a meaning of the child's own, and does not stop the child.
func ofItsOwn(syscall.Signal) bool { return false }
