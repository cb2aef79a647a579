package main

import (
	"os"
	"syscall"
)

// passedOn are the signals that a child is told of. Windows has no others.
func passedOn() []os.Signal { return []os.Signal{syscall.SIGINT, syscall.SIGTERM} }

// ofItsOwn says that a signal has the meaning that the child gives it, and is no wish to stop it.
func ofItsOwn(syscall.Signal) bool { return false }
