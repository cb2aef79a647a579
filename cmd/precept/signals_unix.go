//go:build !windows

package main

import (
	"os"
	"syscall"
)

// passedOn are the signals that a child is told of.
func passedOn() []os.Signal {
	return []os.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
		syscall.SIGUSR2,
	}
}

// ofItsOwn says that a signal has the meaning that the child gives it, and is no wish to stop it.
func ofItsOwn(s syscall.Signal) bool { return s == syscall.SIGUSR1 || s == syscall.SIGUSR2 }
